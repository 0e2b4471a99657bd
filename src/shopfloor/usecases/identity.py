"""Credentials: who somebody is, and for how long."""

from __future__ import annotations

import hmac

from shopfloor.domain.actors import LOCAL, OPERATOR, SUPERVISOR, Kind, Principal, Token, agent_name, user_name
from shopfloor.errors import AgentNotFound, InvalidInput, NotFound, Unauthenticated
from shopfloor.gateways import tokens
from shopfloor.gateways.tokens import Presented, UserTokens
from shopfloor.repositories.work import Work

_INVALID = "The token is not valid, has expired or was revoked"
_RENEW = "Ask the operator for a new one: shopfloor token issue"


def recognise(work: Work, presented: Presented) -> tuple[Principal, int | None]:
    """The principal that a checked token stands for, if it still counts, and until when it does."""
    if presented.id is not None:
        token = _checked(work, presented, presented.id)
        return _principal(work, presented.kind, token.owner), token.expires_at
    if presented.expires_at is not None and presented.expires_at <= work.now:
        raise Unauthenticated(_INVALID, hint=_RENEW)
    return _user(work, presented.owner or "", foreign=True), presented.expires_at


def _checked(work: Work, presented: Presented, id: str) -> Token:
    try:
        token = work.tokens.get(id)
    except NotFound:
        raise Unauthenticated(_INVALID, hint=_RENEW) from None
    proven = token.digest is None or hmac.compare_digest(token.digest, presented.digest or b"")
    owned = presented.owner is None or presented.owner == token.owner
    if not (proven and owned and token.kind is presented.kind and token.valid(work.now)):
        raise Unauthenticated(_INVALID, hint=_RENEW)
    return token


def _principal(work: Work, kind: Kind, owner: str) -> Principal:
    if kind is Kind.USER:
        return _user(work, owner)
    if kind is Kind.AGENT:
        try:
            return work.agents.active(owner).principal
        except AgentNotFound:
            raise Unauthenticated(f"The agent '{owner}' has retired") from None
    if kind is Kind.PAGE:
        return _signed_in(work, owner)
    return OPERATOR if kind is Kind.OPERATOR else Principal(Kind.RUN, owner)


def _signed_in(work: Work, owner: str) -> Principal:
    """Whom the session of a page stands for: a user, or the operator."""
    kind, _, name = owner.partition(":")
    return OPERATOR if kind == Kind.OPERATOR.value else _user(work, name)


def _user(work: Work, name: str, *, foreign: bool = False) -> Principal:
    """The user; one of a configured issuer need not be known here yet."""
    role = ""
    try:
        person = work.people.get(user_name(name))
        if person.removed_at is not None:
            raise Unauthenticated("The user was removed")
        role = person.desk or ""
    except NotFound:
        if not foreign:
            raise Unauthenticated("The user was removed") from None
    except InvalidInput as error:
        raise Unauthenticated(f"The token names no possible user: {error.message}") from None
    return Principal(Kind.USER, name, role)


def by_name(work: Work, name: str) -> Principal:
    """The agent of that name, or else the user."""
    try:
        return work.agents.active(name).principal
    except AgentNotFound:
        pass
    try:
        return Principal(Kind.USER, work.people.active(name).name)
    except NotFound:
        raise NotFound(
            f"There is no agent or user '{name}'", hint=f"Add one: shopfloor agent add {name} --type WORKER"
        ) from None


def is_open(work: Work) -> bool:
    """Whether callers of this machine need no credential yet."""
    return not work.workspaces.closed(work.workspace)


def issue_for_agent(work: Work, name: str, expires_at: int | None = None) -> tuple[Token, str]:
    """A new token for the agent, and its text, which is not kept."""
    return _issue(work, Kind.AGENT, work.agents.active(name).name, expires_at)


def issue_for_user(work: Work, name: str, expires_at: int, signer: UserTokens) -> tuple[Token, str]:
    """A new signed token for the user."""
    token = Token(tokens.new_id(), Kind.USER, work.people.active(name).name, None, work.now, expires_at, None)
    work.tokens.add(token)
    work.workspaces.close(work.workspace, work.now)
    return token, signer.sign(name, token.id, work.now, expires_at)


def issue_to_user(work: Work, name: str, expires_at: int) -> tuple[Token, str]:
    """The same, signed with the key of this floor."""
    return issue_for_user(work, name, expires_at, work.the(UserTokens))


def issue_for_operator(work: Work) -> str:
    """The operator's own token. It does not close the floor."""
    _, text = _issue(work, Kind.OPERATOR, OPERATOR.name, None)
    return text


def issue_for_page(work: Work, who: Principal, expires_at: int) -> str:
    """The session of a page on which somebody signed in. It does not close the floor."""
    _, text = _issue(work, Kind.PAGE, who.key, expires_at)
    return text


def issue_for_run(work: Work, run: str) -> str:
    """A token for the agent of a run. It does not close the floor."""
    _, text = _issue(work, Kind.RUN, run, None)
    return text


def _issue(work: Work, kind: Kind, owner: str, expires_at: int | None) -> tuple[Token, str]:
    text, id, digest = tokens.mint(kind)
    token = Token(id, kind, owner, digest, work.now, expires_at, None)
    work.tokens.add(token)
    if kind is Kind.AGENT:
        work.workspaces.close(work.workspace, work.now)
    return token, text


def revoke(work: Work, id: str) -> Token:
    """The token, which from now on opens nothing."""
    work.tokens.get(id)
    work.tokens.revoke(id, work.now)
    return work.tokens.get(id)


def settle(work: Work, fresh_key: bytes) -> bytes:
    """The workspace's signing key, after making sure that the built-in agent is there."""
    work.agents.add(agent_name(LOCAL), SUPERVISOR, None, None, work.now)
    return work.workspaces.secret(work.workspace, "user-tokens", fresh_key, work.now)
