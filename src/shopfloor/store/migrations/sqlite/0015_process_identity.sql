-- 0015_process_identity.sql: where a process id means something, and which process had it.

ALTER TABLE process ADD COLUMN namespace TEXT;        -- the boot of the machine and the PID namespace
ALTER TABLE process ADD COLUMN start_ticks INTEGER;     -- when the process started, in clock ticks since the boot
