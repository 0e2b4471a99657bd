"""Credentials: tokens of agents, users, runs, pages and the operator."""

from __future__ import annotations

import hmac
import secrets

from shopfloor.domain.principals import (
    LOCAL,
    OPERATOR,
    SUPERVISOR,
    Kind,
    Principal,
    Token,
    check_agent_name,
    check_user_name,
)
from shopfloor.errors import AgentNotFound, InvalidInput, NotFound, Unauthenticated
from shopfloor.gateways import tokens
from shopfloor.gateways.tokens import ParsedToken
from shopfloor.repositories.agents import Agents
from shopfloor.repositories.uow import UnitOfWork

SIGNING_KEY = "user-tokens"
"""The name of the secret that signs the tokens of users."""

_INVALID = "The token is not valid, has expired or was revoked"
_RENEW = "Ask the operator for a new token"


def resolve_token(uow: UnitOfWork, presented: ParsedToken) -> tuple[Principal, int | None]:
    """Return the principal of a parsed token, and when the token expires."""
    # A token of a configured issuer has no row here: its signature is the proof, and only its expiry ends it.
    if presented.id is None:
        if presented.expires_at is not None and presented.expires_at <= uow.now:
            raise Unauthenticated(_INVALID, hint=_RENEW, rule="expired")
        return _find_user(uow, presented.owner or "", foreign=True), presented.expires_at
    # One message for every reason, so that an attacker does not learn which part of a token was right. `rule` is for
    # the metric and the log; no contract renders it.
    try:
        token = uow.tokens.get(presented.id)
    except NotFound:
        raise Unauthenticated(_INVALID, hint=_RENEW, rule="unknown") from None
    # A user's token has no digest: its signature was verified when it was parsed.
    proven = token.digest is None or hmac.compare_digest(token.digest, presented.digest or b"")
    owned = presented.owner is None or presented.owner == token.owner
    if not (proven and owned and token.kind is presented.kind):
        raise Unauthenticated(_INVALID, hint=_RENEW, rule="wrong_secret")
    if not token.is_valid(uow.now):
        raise Unauthenticated(_INVALID, hint=_RENEW, rule="expired" if token.revoked_at is None else "revoked")
    return _find_principal(uow, presented.kind, token.owner), token.expires_at


def _find_principal(uow: UnitOfWork, kind: Kind, owner: str) -> Principal:
    if kind is Kind.USER:
        return _find_user(uow, owner)
    if kind is Kind.AGENT:
        try:
            return uow.agents.get_active(owner).principal
        except AgentNotFound:
            raise Unauthenticated(f"The agent '{owner}' has retired", rule="retired") from None
    if kind is Kind.PAGE:
        # A page session belongs to the operator or to a user, by their key: operator:NAME or user:NAME.
        of, _, name = owner.partition(":")
        return OPERATOR if of == Kind.OPERATOR.value else _find_user(uow, name)
    if kind is Kind.OPERATOR:
        return OPERATOR
    # A crew's agent is an ordinary agent. It uses its run's token, which ends with the run.
    run = uow.runs.find(owner) if kind is Kind.RUN else None
    return Principal(kind, owner) if run is None or run.worker is None else uow.agents.get(run.worker).principal


def _find_user(uow: UnitOfWork, name: str, *, foreign: bool = False) -> Principal:
    """Return the user; a user of a configured issuer may not be stored yet."""
    role = ""
    try:
        person = uow.users.get(check_user_name(name))
        if person.removed_at is not None:
            raise Unauthenticated("The user was removed", rule="removed")
        role = person.desk or ""
    except NotFound:
        if not foreign:
            raise Unauthenticated("The user was removed", rule="removed") from None
    except InvalidInput as error:
        raise Unauthenticated(f"The token's subject is not a valid user name: {error.message}") from None
    return Principal(Kind.USER, name, role)


def is_open(uow: UnitOfWork) -> bool:
    """Return whether local callers need no credential yet."""
    return not uow.workspaces.is_closed(uow.workspace)


def issue_for_agent(uow: UnitOfWork, name: str, expires_at: int | None = None) -> tuple[Token, str]:
    """Issue a token for the agent and return it with its text, which is not stored."""
    return _issue(uow, Kind.AGENT, uow.agents.get_active(name).name, expires_at)


def issue_for_user(uow: UnitOfWork, name: str, expires_at: int | None = None) -> tuple[Token, str]:
    """Issue a signed token for the user, with the configured lifetime by default."""
    if expires_at is None:
        expires_at = uow.now + uow.limits.user_token_lifetime
    token = Token(tokens.generate_id(), Kind.USER, uow.users.get_active(name).name, None, uow.now, expires_at, None)
    uow.tokens.add(token)
    uow.workspaces.close(uow.workspace, uow.now)
    # The key may have been rotated by another process since this one started.
    uow.gateways.user_tokens.use_key(load_signing_key(uow))
    return token, uow.gateways.user_tokens.sign_token(name, token.id, uow.now, expires_at)


def load_signing_key(uow: UnitOfWork) -> bytes:
    """Return the key that signs the tokens of users."""
    return uow.workspaces.get_secret(uow.workspace, SIGNING_KEY)


def rotate_signing_key(uow: UnitOfWork) -> int:
    """Replace the key that signs users' tokens, revoke all of them, and return how many."""
    uow.workspaces.replace_secret(uow.workspace, SIGNING_KEY, secrets.token_bytes(32), uow.now)
    return uow.tokens.revoke_kind(Kind.USER, uow.now)


def rotate_operator_token(uow: UnitOfWork) -> tuple[int, str]:
    """Revoke every token of the operator and issue a new one; return the number revoked, and the new text."""
    return uow.tokens.revoke_kind(Kind.OPERATOR, uow.now), issue_for_operator(uow)


def issue_for_operator(uow: UnitOfWork) -> str:
    """Issue the operator's own token. It does not make credentials mandatory."""
    _, text = _issue(uow, Kind.OPERATOR, OPERATOR.name, None)
    return text


def issue_for_page(uow: UnitOfWork, who: Principal, expires_at: int) -> str:
    """Issue a page session. It does not make credentials mandatory."""
    _, text = _issue(uow, Kind.PAGE, who.key, expires_at)
    return text


def issue_for_run(uow: UnitOfWork, run: str) -> str:
    """Issue a token for the agent of a run. It does not make credentials mandatory."""
    _, text = _issue(uow, Kind.RUN, run, None)
    return text


def issue_for_reviewer(uow: UnitOfWork, owner: str) -> str:
    """Issue a token for the agent that reviews an owner's work. It does not make credentials mandatory."""
    _, text = _issue(uow, Kind.REVIEWER, owner, None)
    return text


def _issue(uow: UnitOfWork, kind: Kind, owner: str, expires_at: int | None) -> tuple[Token, str]:
    text, id, digest = tokens.mint_token(kind)
    token = Token(id, kind, owner, digest, uow.now, expires_at, None)
    uow.tokens.add(token)
    # The operator's own token, page sessions and run tokens do not count: otherwise the first page visit or the first
    # run would lock out every caller without a token.
    if kind is Kind.AGENT:
        uow.workspaces.close(uow.workspace, uow.now)
    return token, text


def revoke_token(uow: UnitOfWork, id: str) -> Token:
    """Revoke the token; it stops working immediately."""
    uow.tokens.get(id)
    uow.tokens.revoke(id, uow.now)
    return uow.tokens.get(id)


def has_local_agent(agents: Agents) -> bool:
    """Return whether the built-in agent exists."""
    try:
        agents.get(LOCAL)
    except AgentNotFound:
        return False
    return True


def ensure_local_agent(agents: Agents, now: int) -> None:
    """Create the built-in agent that callers act as until the first credential is issued."""
    agents.add(check_agent_name(LOCAL), SUPERVISOR, None, None, now)
