"""Reviews: how they are opened for a second agent, decided by it, and closed."""

from __future__ import annotations

from shopfloor.domain.mail import run_participant
from shopfloor.domain.principals import Kind
from shopfloor.domain.redaction import redact
from shopfloor.domain.reviews import Review, ReviewState
from shopfloor.domain.runs import check_content
from shopfloor.errors import InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import credentials, run_requests

_MAX_REJECTIONS = 200


def open_review(uow: UnitOfWork, owner: str) -> tuple[Review, str]:
    """Open a review of an owner's work. Return it with a token for the reviewer only."""
    _end_earlier(uow, owner)
    return uow.reviews.add(owner, uow.now), credentials.issue_for_reviewer(uow, owner)


def decide_review(uow: UnitOfWork, owner: str, *, approve: bool, comment: str) -> Review:
    """Record the reviewer's verdict, once. Without approval, the comment must say what to change."""
    text = redact(comment.strip() if approve else check_content(comment, "a comment"))
    review = uow.reviews.find_latest(owner)
    state = ReviewState.APPROVED if approve else ReviewState.REJECTED
    if review is None or not uow.reviews.decide(review.number, state, text, uow.now):
        raise InvalidState("this review already has its verdict", hint="End your turn")
    return uow.reviews.get(review.number)


def close_review(uow: UnitOfWork, owner: str, number: int) -> Review:
    """End a review: its token stops working, and without a verdict it is withdrawn."""
    _end_earlier(uow, owner)
    return uow.reviews.get(number)


def list_rejections(uow: UnitOfWork, run: str) -> list[Review]:
    """Return the reviews that rejected the work of a run since a person last decided on it, oldest first."""
    answered = [
        request.answered_at or 0
        for request in uow.run_requests.list_page(run, _MAX_REJECTIONS)
        if request.kind == "review" and request.answer not in (None, run_requests.WITHDRAWN)
    ]
    return uow.reviews.list_rejected(run_participant(run).key, max(answered, default=0), _MAX_REJECTIONS)


def _end_earlier(uow: UnitOfWork, owner: str) -> None:
    uow.tokens.revoke_all(Kind.REVIEWER, owner, uow.now)
    latest = uow.reviews.find_latest(owner)
    if latest is not None:
        uow.reviews.decide(latest.number, ReviewState.WITHDRAWN, "", uow.now)
