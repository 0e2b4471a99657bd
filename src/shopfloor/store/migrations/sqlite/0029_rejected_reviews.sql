-- 0029_rejected_reviews.sql: find the rejections of a run without reading its approvals.

CREATE INDEX review_rejected ON review (workspace, owner, number) WHERE state = 'rejected';
