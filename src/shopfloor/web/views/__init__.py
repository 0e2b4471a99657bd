"""The pages of the desk: each makes a few calls, and passes their responses to its template."""

from __future__ import annotations

from shopfloor.web.views.activity import load_call, load_calls, load_decisions
from shopfloor.web.views.agents import load_agent, load_agents
from shopfloor.web.views.crews import load_crew, load_crews
from shopfloor.web.views.home import load_home
from shopfloor.web.views.inbox import load_inbox
from shopfloor.web.views.knowledge import load_knowledge
from shopfloor.web.views.metrics import load_metrics
from shopfloor.web.views.runs import load_run, load_runs, load_transcript
from shopfloor.web.views.search import load_search
from shopfloor.web.views.settings import load_access, load_notifications
from shopfloor.web.views.tasks import load_board, load_epics, load_list, load_task
from shopfloor.web.views.view import View

INBOX_TOPICS = ("mail:human", "question", "run", "escalation")
HOME_TOPICS = ("agent", "task", "epic", "run", "crew", "escalation", "mail:human", "calls", "outbox:dead")

VIEWS = (
    View("/home", "desk/home.html", load_home, HOME_TOPICS),
    View("/inbox", "desk/inbox.html", load_inbox, INBOX_TOPICS),
    View("/inbox/{item}", "desk/inbox.html", load_inbox, INBOX_TOPICS),
    View("/tasks", "desk/epics.html", load_epics, ("task", "epic")),
    View("/tasks/{number:int}", "desk/task.html", load_task, ("task",)),
    View("/boards/epic/{board}", "desk/board.html", load_board, ("task", "epic", "agent")),
    View("/boards/{kind:board}/{board}/{number:int}", "desk/task.html", load_task, ("run", "task")),
    View("/lists/{user}", "desk/board.html", load_list, ("todo",), personal=True),
    View("/agents", "desk/agents.html", load_agents, ("agent", "task")),
    View("/agents/{agent}", "desk/agent.html", load_agent, ("agent", "task", "calls", "token")),
    View("/runs", "desk/runs.html", load_runs, ("run", "task")),
    View("/runs/{run}", "desk/run.html", load_run, ("run", "task", "transcript"), interval=2.0),
    View("/runs/{run}/transcript", "desk/transcript.html", load_transcript, ("transcript",), interval=2.0),
    View("/crews", "desk/crews.html", load_crews, ("crew", "task")),
    View("/crews/{crew}", "desk/crew.html", load_crew, ("crew", "task", "run", "question", "mail:human"), interval=2.0),
    View("/activity", "desk/decisions.html", load_decisions, ("log",)),
    View("/activity/calls", "desk/calls.html", load_calls, ("calls", "log")),
    View("/activity/{reference}", "desk/call.html", load_call),
    View("/search", "desk/search.html", load_search),
    View("/knowledge", "desk/knowledge.html", load_knowledge, ("index", "discovery"), interval=3.0),
    View("/settings/access", "desk/access.html", load_access, ("token", "agent")),
    View("/settings/notifications", "desk/notifications.html", load_notifications),
    # Prometheus scrapes /metrics.
    View("/settings/metrics", "desk/metrics.html", load_metrics, ("calls", "outbox"), interval=5.0),
)

# Addresses of earlier versions, still in bookmarks and old mail.
MOVED = {
    "/floor": "/home",
    "/boards": "/tasks",
    "/boards/run/{run}": "/runs/{run}",
    "/log": "/activity/calls",
    "/log/{reference}": "/activity/{reference}",
    "/context": "/knowledge",
    "/access": "/settings/access",
    "/settings": "/settings/access",
    "/desk/metrics": "/settings/metrics",
}
