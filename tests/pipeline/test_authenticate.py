"""A credential identifies the caller, never an argument."""

from __future__ import annotations

import hashlib
import re
import stat
from types import SimpleNamespace

import pytest

from shopfloor.domain.principals import OPERATOR, Kind
from shopfloor.domain.times import HOUR, SECOND
from shopfloor.gateways.tokens import mint_token
from shopfloor.pipeline.authenticate import MAX_LOGGED_PER_MINUTE
from shopfloor.store.credential_version import CREDENTIALS_TOPIC
from shopfloor.transports.server import ensure_operator_token
from shopfloor.usecases import credentials
from tests.workbench import STATUS, on_sqlite, wait_until

NO_CREDENTIAL = "A credential is needed: Authorization: Bearer TOKEN"
NOT_VALID = "The token is not valid, has expired or was revoked"


def identify_caller(shopfloor, token=None, **more):
    """Return the id in the caller's status, or the message of the rejection."""
    body = shopfloor.ask(STATUS, toolset="factory", token=token, **more).body
    return body["data"]["id"] if body["success"] else body["error"]["message"]


@pytest.fixture
def builder(shopfloor):
    return shopfloor.seed_agent("builder", "WORKER", with_token=True)[1]


def test_a_token_is_a_prefix_a_public_id_and_a_long_secret(builder):
    assert re.fullmatch(r"sfa_[a-km-np-z2-9]{12}_[A-Za-z0-9_-]{43}", builder)


def test_each_kind_of_token_has_its_own_prefix():
    assert [mint_token(kind)[0][:4] for kind in (Kind.AGENT, Kind.OPERATOR, Kind.RUN)] == ["sfa_", "sfo_", "sfr_"]


def test_only_a_digest_of_the_secret_is_stored(shopfloor, builder):
    id, secret = builder[4:].split("_", 1)
    ((kind, owner, digest),) = shopfloor.rows("SELECT kind, owner, digest FROM token WHERE id = :id", id=id)
    assert (kind, owner, bytes(digest)) == ("agent", "builder", hashlib.sha256(secret.encode()).digest())
    for (table,) in shopfloor.rows(_TABLES[shopfloor.engine.database.store.engine]):
        assert secret not in str(shopfloor.rows(f"SELECT * FROM {table}"))


_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
}


def test_token_identifies_the_caller(shopfloor, builder):
    assert identify_caller(shopfloor, builder) == "builder"


def test_unknown_or_malformed_token_is_rejected(shopfloor, builder):
    _, id, secret = builder.split("_", 2)
    forged = [
        f"sfo_{id}_{secret}",
        f"sfr_{id}_{secret}",
        f"sfa_{id}_{secret[:-1]}",
        f"sfa_{id}_{secret}x",
        f"sfa_{id}_{secret.swapcase()}",
        f"sfa_{id[:-1]}_{secret}",
        f"sfa__{secret}",
        f"sfa_{id}_",
        f"SFA_{id}_{secret}",
        f"sfa_' OR 1=1 --_{secret}",
        "sfa_x_\ud800",
        "sfa_\x00_x",
        "sfa",
        "x" * 100_000,
        "a.b.c",
        "\x00",
        "",
        builder.encode().hex(),
    ]
    assert {identify_caller(shopfloor, token) for token in forged} <= {NOT_VALID, "The token is not valid"}


def notify_credentials_changed(shopfloor):
    """Do what a repository does when it changes credentials: raw SQL of a test does not."""
    shopfloor.engine.database.store.write(lambda connection: connection.notify_on_commit(CREDENTIALS_TOPIC))


def test_revoked_token_is_rejected(shopfloor, builder):
    assert identify_caller(shopfloor, builder) == "builder"
    (issued,) = shopfloor.list_tokens()
    assert shopfloor.revoke_token(issued["id"])["state"] == "revoked"
    assert identify_caller(shopfloor, builder) == NOT_VALID


def test_revoking_one_token_keeps_the_others(shopfloor, builder):
    second = shopfloor.issue_token(agent="builder")["token"]
    shopfloor.revoke_token(builder.split("_")[1])
    assert (identify_caller(shopfloor, builder), identify_caller(shopfloor, second)) == (NOT_VALID, "builder")


def test_expired_token_is_rejected(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    token = shopfloor.issue_token(agent="builder", lifetime_seconds=3600)["token"]
    (issued,) = shopfloor.read(lambda uow: uow.tokens.list_page(10, ""))
    assert issued.expires_at - issued.created_at == HOUR
    shopfloor.pass_time(HOUR - 5 * SECOND)
    assert identify_caller(shopfloor, token) == "builder"
    shopfloor.pass_time(5 * SECOND)
    assert identify_caller(shopfloor, token) == NOT_VALID


def test_token_of_a_retired_agent_is_rejected_and_no_new_one_is_issued(shopfloor, builder):
    shopfloor.retire_agent("builder")
    assert identify_caller(shopfloor, builder) == NOT_VALID
    shopfloor.execute("UPDATE token SET revoked_at = NULL")
    notify_credentials_changed(shopfloor)
    assert identify_caller(shopfloor, builder) == "The agent 'builder' has retired"


def test_token_of_another_workspace_is_rejected(shopfloor, open_workbench, builder):
    other = open_workbench(settings={"workspace": "other"})
    other.seed_agent("builder", "SUPERVISOR", with_token=True)
    assert identify_caller(other, builder) == NOT_VALID
    user = shopfloor.seed_user("guest")
    assert other.ask("look", token=user).body["message"] == "The token is not valid"


def test_changed_agent_type_applies_from_the_next_call(shopfloor, builder):
    assert shopfloor.ask(STATUS, toolset="factory", token=builder).body["data"]["type"] == "WORKER"
    shopfloor.execute("UPDATE agent SET type = 'SUPERVISOR' WHERE name = 'builder'")
    notify_credentials_changed(shopfloor)
    assert shopfloor.ask(STATUS, toolset="factory", token=builder).record.caller.role == "SUPERVISOR"


# --- open until the first credential, then permanently closed ---


def test_new_server_accepts_local_calls_without_a_token(shopfloor):
    assert identify_caller(shopfloor) == "local"
    assert shopfloor.log()[0].actor == "operator:local"


def test_open_server_lets_a_caller_name_any_agent(shopfloor):
    shopfloor.seed_agent("worker-123", "WORKER", with_token=False)
    assert identify_caller(shopfloor, claim="worker-123") == "worker-123"


@on_sqlite
@pytest.mark.parametrize("first", ["agent token", "user", "user token"])
def test_first_credential_makes_tokens_required(shopfloor, first):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    assert identify_caller(shopfloor) == "local"
    if first == "agent token":
        shopfloor.issue_token(agent="builder")
    elif first == "user":
        shopfloor.add_user("guest")
    else:
        shopfloor.execute("INSERT INTO person (workspace, name, created_at) SELECT id, 'guest', 0 FROM workspace")
        shopfloor.issue_token(user="guest")
    assert identify_caller(shopfloor) == NO_CREDENTIAL


def test_wrong_token_is_rejected_by_an_open_server(shopfloor):
    assert identify_caller(shopfloor, "sfa_aaaaaaaaaaaa_bbbb") == NOT_VALID


def test_tokens_stay_required_after_every_credential_is_revoked(shopfloor, open_workbench, builder):
    shopfloor.revoke_token(builder.split("_")[1])
    shopfloor.retire_agent("builder")
    shopfloor.execute("DELETE FROM token")
    assert identify_caller(shopfloor) == NO_CREDENTIAL
    assert identify_caller(open_workbench()) == NO_CREDENTIAL


def test_first_credential_issued_by_another_process_makes_tokens_required_immediately(shopfloor, open_workbench):
    assert identify_caller(shopfloor) == "local"
    open_workbench().seed_agent("builder", "WORKER", with_token=True)
    assert identify_caller(shopfloor) == NO_CREDENTIAL


def test_agent_without_a_token_keeps_the_server_open(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    assert identify_caller(shopfloor) == "local"


def test_first_credential_closes_only_its_own_workspace(shopfloor, open_workbench, builder):
    assert identify_caller(open_workbench(settings={"workspace": "other"})) == "local"


# --- the operator ---


def test_operator_token_keeps_the_server_open(shopfloor):
    ensure_operator_token(shopfloor.engine)
    assert identify_caller(shopfloor) == "local"


def test_operator_token_file_is_readable_by_its_owner_only(shopfloor):
    token = ensure_operator_token(shopfloor.engine)
    path = shopfloor.settings.data / "operator.token"
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (token + "\n", 0o600)
    assert ensure_operator_token(shopfloor.engine) == token
    assert shopfloor.engine.identity.authenticate(shopfloor.new_request("look", token=token).credential) == OPERATOR


def test_token_file_with_an_invalid_token_is_rewritten(shopfloor):
    shopfloor.settings.data.joinpath("operator.token").write_text("from another server\n")
    assert identify_caller(shopfloor, ensure_operator_token(shopfloor.engine)) == "local"


def test_operator_token_is_listed_with_its_kind(shopfloor, builder):
    ensure_operator_token(shopfloor.engine)
    assert {(token["kind"], token["owner"]) for token in shopfloor.list_tokens()} == {
        ("operator", "operator"),
        ("agent", "builder"),
    }


def test_the_operator_acts_as_any_agent_and_the_log_names_both(shopfloor, builder):
    token = ensure_operator_token(shopfloor.engine)
    assert [identify_caller(shopfloor, token), identify_caller(shopfloor, token, claim="builder")] == [
        "local",
        "builder",
    ]
    assert {(entry.subject, entry.actor) for entry in shopfloor.log() if entry.toolset == "factory"} == {
        ("agent:local", "operator:operator"),
        ("agent:builder", "operator:operator"),
    }


# --- what is remembered ---


def test_on_one_file_a_token_revoked_by_another_process_is_rejected_at_once_without_a_listener(open_workbench):
    here, there = [open_workbench(started=False, settings={"database": ""}) for _ in range(2)]
    token = there.seed_agent("builder", "WORKER", with_token=True)[1]
    assert identify_caller(here, token) == "builder"
    there.revoke_token(token.split("_")[1])
    assert identify_caller(here, token) == NOT_VALID


def test_a_token_revoked_by_another_process_is_rejected_within_a_second(shopfloor, open_workbench, builder):
    other = open_workbench()
    assert identify_caller(shopfloor, builder) == "builder"
    other.revoke_token(builder.split("_")[1])
    if shopfloor.engine.database.store.engine == "postgres":
        wait_until(lambda: identify_caller(shopfloor, builder) == NOT_VALID)
    assert identify_caller(shopfloor, builder) == NOT_VALID


def test_without_any_notification_a_revoked_token_is_rejected_within_a_second(shopfloor, builder, monkeypatch):
    at = [0.0]
    monkeypatch.setattr("shopfloor.pipeline.authenticate.time", SimpleNamespace(monotonic=lambda: at[0]))
    assert identify_caller(shopfloor, builder) == "builder"
    shopfloor.engine.database.store.write(lambda connection: connection.execute("UPDATE token SET revoked_at = 1"))
    at[0] = 0.9
    assert identify_caller(shopfloor, builder) == NOT_VALID


def test_a_revocation_during_the_lookup_is_not_hidden_by_the_cache(shopfloor, builder, monkeypatch):
    """Reject a principal that was read before the revocation must not be served after it."""
    resolve_token = credentials.resolve_token

    def revoke_meanwhile(uow, presented):
        found = resolve_token(uow, presented)
        notify_credentials_changed(shopfloor)
        return found

    monkeypatch.setattr(credentials, "resolve_token", revoke_meanwhile)
    assert identify_caller(shopfloor, builder) == "builder"
    assert shopfloor.engine.identity._find_cached(builder) is None


def read_failures(shopfloor):
    shopfloor.engine.database.store.flush()
    return shopfloor.rows("SELECT subject, decision FROM decision WHERE tool = 'authenticate' ORDER BY id")


def test_rejected_credentials_are_counted_by_reason_and_logged_once_per_minute(shopfloor, builder):
    id = builder.split("_")[1]
    for _ in range(3):
        assert identify_caller(shopfloor, builder + "x") == NOT_VALID
    shopfloor.revoke_token(id)
    identify_caller(shopfloor, builder)
    identify_caller(shopfloor, "sfa_unknown_secret")
    identify_caller(shopfloor, "not a token")
    identify_caller(shopfloor)
    assert read_failures(shopfloor) == [
        (f"token:{id}", "Authentication failed: wrong_secret"),
        ("token:unknown", "Authentication failed: unknown"),
        ("address:", "Authentication failed: bad_signature"),
    ]
    metrics = shopfloor.engine.telemetry.metrics.render().decode()
    for reason, count in {"wrong_secret": 3, "revoked": 1, "unknown": 1, "bad_signature": 1, "missing": 1}.items():
        assert f'shopfloor_failed_authentications_total{{reason="{reason}"}} {count}.0' in metrics
    secret = builder.split("_", 2)[2]  # which may contain underscores itself
    assert not [row for row in shopfloor.rows("SELECT * FROM decision") if secret in str(row)]


def test_made_up_tokens_cannot_fill_the_log(shopfloor, builder):
    for number in range(200):
        identify_caller(shopfloor, f"sfa_{number}_secret")
    assert len(read_failures(shopfloor)) <= 2 * MAX_LOGGED_PER_MINUTE
