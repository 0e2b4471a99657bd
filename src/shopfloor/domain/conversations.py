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


_DELETE = frozenset(
    ["delete", "remove", "erase", "discard", "drop", "trash", "scrap", "cancel", "scratch", "lösche", "lösch", "löschen", "entferne", "entfernen", "streiche", "streichen", "supprime", "supprimer", "efface", "effacer", "enlève", "enlever", "borra", "borrar", "elimina", "eliminar", "quita", "quitar", "apaga", "apagar", "exclui", "excluir", "remova", "remover", "cancella", "cancellare", "rimuovi", "verwijder", "verwijderen", "usuń", "usunąć", "skasuj", "ta", "bort", "radera", "slett", "fjern", "poista", "удали", "удалить", "убери"]
)
_DOUBT = frozenset(
    ["not", "don", "dont", "doesn", "never", "no", "without", "except", "but", "keep", "if", "whether", "what", "why", "how", "which", "when", "should", "would", "nicht", "kein", "keine", "ohne", "außer", "wenn", "ob", "was", "pas", "sans", "sauf", "si", "que", "no", "sin", "salvo", "não", "sem", "se", "non", "senza", "niet", "geen", "nie", "bez", "не", "нет", "без"]
)
_MANY = frozenset(
    ["all", "every", "everything", "each", "any", "both", "several", "some", "many", "tasks", "todos", "items", "things", "ones", "rest", "others", "completed", "finished", "done", "old", "alle", "alles", "jede", "aufgaben", "toutes", "tous", "tout", "todas", "todos", "todo", "tutte", "tutti", "tareas", "все"]
)
_FILLER = frozenset(
    ["a", "an", "the", "my", "this", "that", "it", "them", "these", "those", "task", "todo", "item", "entry", "please", "can", "could", "you", "i", "want", "to", "from", "list", "of", "off", "and", "also", "now", "just", "number", "no", "nr", "id", "called", "named", "one", "die", "der", "das", "den", "meine", "meinen", "bitte", "aufgabe", "von", "aus", "und", "mit", "la", "le", "les", "ma", "mon", "el", "mi", "tarea", "tâche", "de", "du"]
)
_YES = frozenset(
    {
        "yes", "y", "yep", "yeah", "yes please", "yes delete it", "yes delete them", "yes do it", "yes do", "yes go ahead",
        "please do", "do it", "go ahead", "delete it", "delete them", "confirm", "confirmed", "i confirm", "sure", "yes sure",
        "ja", "ja bitte", "ja löschen", "ja lösch sie", "oui", "oui s il te plaît", "sí", "si", "sí por favor", "sim", "da", "tak",
        "да", "はい", "是", "是的", "네", "igen", "kyllä", "evet", "ναι",
    }
)  # fmt: skip
_NUMBERS = re.compile(
    r"(?:#|\b(?:tasks?|todos?|items?|numbers?|nr|ids?|aufgaben?|tâches?|tareas?)\b\W{0,3})"
    r"(\d{1,18}(?:\s*(?:,|&|and|und|et|y|e)?\s*#?\d{1,18}\b)*)",
    re.IGNORECASE,
)


def agrees(message: str) -> bool:
    """Whether a message is nothing but a yes."""
    return " ".join(_words(message)) in _YES


def names(message: str, number: int, titles: Iterable[tuple[int, str]]) -> bool:
    """Whether a message asks to delete this one of the user's tasks, and can mean no other by it."""
    text, spans = " ".join(_words(message)), []
    known = [(task, " ".join(_words(title))) for task, title in titles]
    for title in sorted({title for _, title in known if _is_name(title)}, key=len, reverse=True):
        if f" {title} " in f" {text} ":
            spans.append(title)
            text = f" {text} ".replace(f" {title} ", " | ").strip()
    left = set(text.split())
    if not left & _DELETE or left & _DOUBT or message.rstrip().endswith("?"):
        return False
    if number in _numbers(message, spans):
        return True
    meant = [task for task, title in known if title in spans and _is(title, number, known)]
    return not left & _MANY and meant == [number]


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


def _is(title: str, number: int, known: Sequence[tuple[int, str]]) -> bool:
    return title == next((own for task, own in known if task == number), None)


def _is_name(title: str) -> bool:
    """Whether a title can name a task: one of common words only could be meant otherwise."""
    return bool(set(title.split()) - _DELETE - _FILLER - _MANY - _DOUBT)


def _numbers(message: str, spans: Sequence[str]) -> set[int]:
    """The numbers of tasks in a message, apart from those inside the titles that it names."""
    if any(any(word.isdigit() for word in span.split()) for span in spans):
        return set()
    found = {int(digits) for match in _NUMBERS.finditer(message) for digits in re.findall(r"\d+", match[1])}
    words = [word for word in _words(message) if word not in _FILLER]
    if len(words) == 2 and words[0] in _DELETE and words[1].isdecimal():
        found.add(int(words[1]))
    return found


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"[\W_]+", " ", plain).split()
