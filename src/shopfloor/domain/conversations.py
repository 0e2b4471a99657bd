"""Conversations with the assistant, and when its user has agreed to a deletion.

A deletion is agreed to in two ways only: the user's latest message asks for it and names the task so that no other
can be meant, or it says yes to the question that was asked about exactly this task. Where a message can be read in
two ways, or is in a language not known here, the answer is no, and the question is asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MESSAGE_LIMIT = 4000
ASKED_LIMIT = 20
USER, ASSISTANT = "user", "assistant"

INTERRUPTED = "I was interrupted before I could finish. What was already done is on your list; please ask again."


@dataclass(frozen=True, slots=True)
class Asked:
    """A deletion that a question was asked about, with the title as the user read it."""

    task: int
    title: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of one user."""

    id: int
    title: str
    asked: tuple[Asked, ...]
    granted: tuple[Asked, ...]
    busy_until: int | None
    busy_by: int | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Message:
    """Something that was said."""

    id: int
    role: str
    text: str
    tool_calls: list[Any] | None
    error: str | None
    created_at: int


def _all_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_DELETE = _all_of(
    """delete remove erase discard drop trash scrap cancel scratch
    lösche lösch löschen entferne entfernen streiche streichen supprime supprimer efface effacer enlève enlever
    borra borrar elimina eliminar quita quitar apaga apagar exclui excluir remova remover cancella cancellare rimuovi
    verwijder verwijderen usuń usunąć skasuj ta bort radera slett fjern poista удали удалить убери"""
)
_COMMON = _all_of(
    """all every everything not never no except keep each any both several some many tasks todos items things ones rest others
    completed finished done old alle alles jede aufgaben toutes tous tout todas todos todo tutte tutti tareas все"""
)
_FILLER = _all_of(
    """a an the my this that it them these those task todo item entry please can could you i want to from list of off
    and also now just number nr id called named one
    die der das den meine meinen bitte aufgabe von aus und mit la le les ma mon el mi tarea tâche de du"""
)
_YES = frozenset(
    {
        "yes", "y", "yep", "yeah", "yes please", "yes delete it", "yes delete them", "yes do it", "yes do", "yes go ahead",
        "please do", "do it", "go ahead", "delete it", "delete them", "confirm", "confirmed", "i confirm", "sure", "yes sure",
        "ja", "ja bitte", "ja löschen", "ja lösch sie", "oui", "oui s il te plaît", "sí", "si", "sí por favor", "sim", "da", "tak",
        "да", "はい", "是", "是的", "네", "igen", "kyllä", "evet", "ναι",
    }
)  # fmt: skip
_GAP = "|"
_NUMBERS = re.compile(
    r"\b(?:tasks?|todos?|items?|numbers?|nr|ids?|aufgaben?|tâches?|tareas?) (\d{1,18}(?:(?: and| und| et| y| e)? \d{1,18})*)\b"
)


def agrees(message: str) -> bool:
    """Whether a message is nothing but a yes."""
    return _plain(message) in _YES


def names(message: str, number: int, titles: Iterable[tuple[int, str]]) -> bool:
    """Whether a message asks to delete this one of the user's tasks, and can mean no other by it.

    It must be nothing but that: a word for deleting, numbers and titles of tasks, and words that mean little.
    """
    known = [(task, _plain(title)) for task, title in titles]
    text, named = _taken_out(_plain(message), {title for _, title in known if _is_name(title)})
    text, numbers = _numbers(text)
    left = set(text.split())
    if message.rstrip().endswith("?") or not left & _DELETE or left - _DELETE - _FILLER - {_GAP}:
        return False
    own = next((title for task, title in known if task == number), None)
    return number in numbers or (own in named and [task for task, title in known if title == own] == [number])


def question(asked: Sequence[Asked]) -> str:
    """What the user is asked before these tasks are deleted."""
    if len(asked) == 1:
        return f'Delete "{asked[0].title}" (task {asked[0].task})? Answer yes to delete it.'
    listed = "\n".join(f'- "{each.title}" (task {each.task})' for each in asked)
    return f"Delete these {len(asked)} tasks? Answer yes to delete them.\n{listed}"


def title_of(message: str) -> str:
    """What a conversation is called that begins with this message."""
    line = " ".join(message.split())
    return line if len(line) <= 60 else line[:59].rstrip() + "…"


def _taken_out(text: str, titles: set[str]) -> tuple[str, set[str]]:
    """A text without the titles in it, the longest first, and which they were."""
    named = set()
    for title in sorted(titles, key=len, reverse=True):
        if f" {title} " in f" {text} ":
            named.add(title)
            text = f" {text} ".replace(f" {title} ", f" {_GAP} ").strip()
    return text, named


def _is_name(title: str) -> bool:
    """Whether a title can name a task: one of common words only could be meant otherwise."""
    return bool(set(title.split()) - _DELETE - _FILLER - _COMMON)


def _numbers(text: str) -> tuple[str, set[int]]:
    """A text without the numbers of tasks in it, and which they were: "task 15", or a word for deleting and "15"."""
    found = {int(digits) for match in _NUMBERS.finditer(text) for digits in re.findall(r"\d+", match[1])}
    text = _NUMBERS.sub("", text)
    said = [word for word in text.split() if word not in _FILLER]
    if len(said) == 2 and said[0] in _DELETE and said[1].isdecimal():
        return said[0], found | {int(said[1])}
    return text, found


def _plain(text: str) -> str:
    """The words alone, for comparing."""
    folded = unicodedata.normalize("NFKC", text.replace("#", " task ")).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", folded).split())
