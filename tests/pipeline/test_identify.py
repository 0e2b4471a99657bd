"""Who calls is proven by a credential, never by an argument."""

from __future__ import annotations

import hashlib
import re
import stat
from types import SimpleNamespace

import pytest

from shopfloor.domain.actors import OPERATOR, Kind
from shopfloor.domain.times import HOUR, SECOND
from shopfloor.gateways.tokens import mint
from shopfloor.pipeline import identify
from shopfloor.transports.server import operator_token
from tests.workbench import STATUS, on_sqlite, until

NO_CREDENTIAL = "A credential is needed: Authorization: Bearer TOKEN"
NOT_VALID = "The token is not valid, has expired or was revoked"


def who(floor, token=None, **more):
    """The id that the caller's status names, or the message of the refusal."""
    body = floor.ask(STATUS, toolset="factory", token=token, **more).body
    return body["data"]["id"] if body["success"] else body["error"]["message"]


@pytest.fixture
def builder(floor):
    return floor.hire("builder", "WORKER", with_token=True)[1]


def test_a_token_is_a_prefix_a_public_id_and_a_long_secret(builder):
    assert re.fullmatch(r"sfa_[a-km-np-z2-9]{12}_[A-Za-z0-9_-]{43}", builder)


def test_each_kind_of_token_shows_what_it_is():
    assert [mint(kind)[0][:4] for kind in (Kind.AGENT, Kind.OPERATOR, Kind.RUN)] == ["sfa_", "sfo_", "sfr_"]


def test_only_a_digest_of_the_secret_is_stored(floor, builder):
    id, secret = builder[4:].split("_", 1)
    ((kind, owner, digest),) = floor.rows("SELECT kind, owner, digest FROM token WHERE id = :id", id=id)
    assert (kind, owner, bytes(digest)) == ("agent", "builder", hashlib.sha256(secret.encode()).digest())
    for (table,) in floor.rows(_TABLES[floor.floor.works.store.engine]):
        assert secret not in str(floor.rows(f"SELECT * FROM {table}"))


_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
}


def test_the_token_says_who_calls(floor, builder):
    assert who(floor, builder) == "builder"


def test_anything_that_is_no_token_of_ours_is_refused(floor, builder):
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
    assert {who(floor, token) for token in forged} <= {NOT_VALID, "The token is not valid"}


def test_a_revoked_token_opens_nothing_from_then_on(floor, builder):
    assert who(floor, builder) == "builder"
    (issued,) = floor.tokens()
    assert floor.revoke_token(issued.id).revoked_at is not None
    assert who(floor, builder) == NOT_VALID


def test_revoking_one_token_leaves_the_others(floor, builder):
    _, second = floor.issue_token(agent="builder")
    floor.revoke_token(builder.split("_")[1])
    assert (who(floor, builder), who(floor, second)) == (NOT_VALID, "builder")


def test_an_expired_token_opens_nothing(floor):
    floor.hire("builder", "WORKER", with_token=False)
    issued, token = floor.issue_token(agent="builder", lifetime=HOUR)
    assert issued.expires_at - issued.created_at == HOUR
    floor.pass_time(HOUR - 5 * SECOND)
    assert who(floor, token) == "builder"
    floor.pass_time(5 * SECOND)
    floor.floor.identity.forget()
    assert who(floor, token) == NOT_VALID


def test_a_retired_agent_opens_nothing_and_gets_no_new_token(floor, builder):
    floor.retire("builder")
    assert who(floor, builder) == NOT_VALID
    floor.execute("UPDATE token SET revoked_at = NULL")
    floor.floor.identity.forget()
    assert who(floor, builder) == "The agent 'builder' has retired"


def test_a_token_of_another_workspace_is_not_known_here(floor, opened, builder):
    other = opened(settings={"workspace": "other"})
    other.hire("builder", "SUPERVISOR", with_token=True)
    assert who(other, builder) == NOT_VALID
    user = floor.add_user("guest")[1]
    assert other.ask("look", token=user).body["message"] == "The token is not valid"


def test_another_type_counts_from_the_next_call_on(floor, builder):
    assert floor.ask(STATUS, toolset="factory", token=builder).body["data"]["type"] == "WORKER"
    floor.execute("UPDATE agent SET type = 'SUPERVISOR' WHERE name = 'builder'")
    floor.floor.identity.forget()
    assert floor.ask(STATUS, toolset="factory", token=builder).call.caller.role == "SUPERVISOR"


# --- open until the first credential, then closed for good ---


def test_a_new_floor_is_open_to_its_own_machine(floor):
    assert who(floor) == "local"
    assert floor.log()[0].actor == "operator:local"


def test_on_an_open_floor_any_agent_may_be_named(floor):
    floor.hire("worker-123", "WORKER", with_token=False)
    assert who(floor, claim="worker-123") == "worker-123"


@on_sqlite
@pytest.mark.parametrize("first", ["agent token", "user", "user token"])
def test_the_first_credential_closes_the_floor(floor, first):
    floor.hire("builder", "WORKER", with_token=False)
    assert who(floor) == "local"
    if first == "agent token":
        floor.issue_token(agent="builder")
    elif first == "user":
        floor.add_user("guest")
    else:
        floor.execute("INSERT INTO person (workspace, name, created_at) SELECT id, 'guest', 0 FROM workspace")
        floor.issue_token(user="guest")
    assert who(floor) == NO_CREDENTIAL


def test_a_wrong_token_is_refused_on_an_open_floor_too(floor):
    assert who(floor, "sfa_aaaaaaaaaaaa_bbbb") == NOT_VALID


def test_closed_is_closed_for_good(floor, opened, builder):
    floor.revoke_token(builder.split("_")[1])
    floor.retire("builder")
    floor.execute("DELETE FROM token")
    assert who(floor) == NO_CREDENTIAL
    assert who(opened()) == NO_CREDENTIAL


def test_another_process_that_issues_the_first_credential_closes_this_floor_at_once(floor, opened):
    assert who(floor) == "local"
    opened().hire("builder", "WORKER", with_token=True)
    assert who(floor) == NO_CREDENTIAL


def test_an_agent_without_a_token_does_not_close_it(floor):
    floor.hire("builder", "WORKER", with_token=False)
    assert who(floor) == "local"


def test_each_workspace_is_closed_by_its_own_credential(floor, opened, builder):
    assert who(opened(settings={"workspace": "other"})) == "local"


# --- the operator ---


def test_the_operators_own_token_does_not_close_the_floor(floor):
    operator_token(floor.floor)
    assert who(floor) == "local"


def test_the_operators_token_lies_in_a_file_for_its_owner_alone(floor):
    token = operator_token(floor.floor)
    path = floor.settings.data / "operator.token"
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (token + "\n", 0o600)
    assert operator_token(floor.floor) == token
    assert floor.floor.identity.authenticate(floor.a_call("look", token=token).credential) == OPERATOR


def test_a_file_whose_token_does_not_work_is_written_anew(floor):
    floor.settings.data.joinpath("operator.token").write_text("from another floor\n")
    assert who(floor, operator_token(floor.floor)) == "local"


def test_the_operators_token_is_not_among_those_that_are_listed(floor, builder):
    operator_token(floor.floor)
    assert [token.owner for token in floor.tokens()] == ["builder"]


def test_the_operator_acts_as_any_agent_and_the_log_names_both(floor, builder):
    token = operator_token(floor.floor)
    assert [who(floor, token), who(floor, token, claim="builder")] == ["local", "builder"]
    assert {(entry.subject, entry.actor) for entry in floor.log()} == {
        ("agent:local", "operator:operator"),
        ("agent:builder", "operator:operator"),
    }


# --- what is remembered ---


def test_on_one_file_what_another_process_revokes_is_refused_at_once_though_nobody_listens(opened):
    here, there = [opened(started=False, settings={"database": ""}) for _ in range(2)]
    token = there.hire("builder", "WORKER", with_token=True)[1]
    assert who(here, token) == "builder"
    there.revoke_token(token.split("_")[1])
    assert who(here, token) == NOT_VALID


def test_what_another_process_revokes_is_refused_within_a_second(floor, opened, builder):
    other = opened()
    assert who(floor, builder) == "builder"
    other.revoke_token(builder.split("_")[1])
    if floor.floor.works.store.engine == "postgres":
        until(lambda: who(floor, builder) == NOT_VALID)
    assert who(floor, builder) == NOT_VALID


def test_even_without_any_hint_a_revoked_token_is_refused_within_a_second(floor, builder, monkeypatch):
    at = [0.0]
    monkeypatch.setattr(identify, "time", SimpleNamespace(monotonic=lambda: at[0]))
    assert who(floor, builder) == "builder"
    floor.floor.works.store.write(lambda connection: connection.execute("UPDATE token SET revoked_at = 1"))
    at[0] = 0.9
    assert who(floor, builder) == NOT_VALID
