"""One function per method, named after it. The table is the only list of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tenure.rpc.handlers import (
    approval,
    attach,
    census,
    commands,
    complete,
    config,
    profile,
    prompt,
    session,
    setup,
    terminal,
)

HANDLERS: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
    "session.create": session.session_create,
    "session.resume": attach.session_resume,
    "session.attach": attach.session_attach,
    "session.detach": attach.session_detach,
    "session.activate": attach.session_activate,
    "session.list": session.session_list,
    "session.active_list": session.session_active_list,
    "session.most_recent": session.session_most_recent,
    "session.history": session.session_history,
    "session.title": session.session_title,
    "session.status": session.session_status,
    "session.usage": session.session_usage,
    "session.interrupt": session.session_interrupt,
    "session.close": session.session_close,
    "session.delete": session.session_delete,
    "session.events.since": attach.session_events_since,
    "prompt.submit": prompt.prompt_submit,
    "approval.respond": approval.approval_respond,
    "config.get": config.config_get,
    "config.set": config.config_set,
    "model.options": setup.model_options,
    "setup.status": setup.setup_status,
    "setup.runtime_check": setup.setup_runtime_check,
    "commands.catalog": commands.commands_catalog,
    "slash.exec": commands.slash_exec,
    "command.dispatch": commands.command_dispatch,
    "complete.slash": complete.complete_slash,
    "complete.path": complete.complete_path,
    "input.detect_drop": terminal.input_detect_drop,
    "paste.collapse": terminal.paste_collapse,
    "terminal.resize": terminal.terminal_resize,
    "process.stop": terminal.process_stop,
    "process.list": terminal.process_list,
    "tools.list": setup.tools_list,
    "profile.list": profile.profile_list,
    "profile.create": profile.profile_create,
    "profile.delete": profile.profile_delete,
    "census.get": census.census_get,
    "gateway.info": census.gateway_info,
}
