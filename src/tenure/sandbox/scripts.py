"""Scripts of ours that run where commands run: they look for what belongs to a command, and end it.

A command carries a label in its environment and leads a session; both are looked for, since each
can be left. Plain ``sh``, with what every system has.
"""

from __future__ import annotations

import shlex

MARK = "tenure:"
HELLO = f"echo {MARK}$$"
"""How a command begins: with its process id. What stands before it was said by the login shell."""

_MEMBERS = r"""
members() {
  {
    ps -eo pid=,sid=,stat= 2>/dev/null | while read -r pid sid state; do
      case $state in Z*) continue ;; esac
      [ "$sid" = "$root" ] && echo "$pid"
    done
    grep -lz "^TENURE_OWNER=$label\$" /proc/[0-9]*/environ 2>/dev/null |
      while IFS=/ read -r _ _ pid _; do echo "$pid"; done
  } | sort -un
}
"""
"""The processes of a command: its session, and whatever carries its label."""

END = (
    _MEMBERS
    + r"""
told=" "
for step in INT:5 TERM:15 KILL:20; do
  signal=${step%:*} turns=${step#*:}
  while [ "$turns" -gt 0 ]; do
    found=$(members)
    [ -z "$found" ] && exit 0
    for pid in $found; do
      case $told in *" $signal$pid "*) ;; *) kill -s "$signal" "$pid" 2>/dev/null ;; esac
      told="$told$signal$pid "
    done
    sleep 0.1
    turns=$((turns - 1))
  done
done
[ -z "$(members)" ]
"""
)
"""Interrupt, TERM and KILL, half a second, 1.5 and 2 seconds; fails if something is left."""
COUNT = f'{_MEMBERS}echo "{MARK}$(members | grep -c .)"\n'
SIGNAL = _MEMBERS + 'for pid in $(members); do kill -s "$signal" "$pid" 2>/dev/null; done; :\n'
SWEEP = r"""
for file in $(grep -lz "^TENURE_OWNER=[^/]*/$session/" /proc/[0-9]*/environ 2>/dev/null); do
  grep -qz "^TENURE_OWNER=$instance/" "$file" 2>/dev/null && continue
  pid=${file#/proc/}
  kill -s KILL "${pid%/environ}" 2>/dev/null
done
:
"""
"""Ends what an earlier gateway, which was killed, has left of this session."""


def remote_script(text: str, **variables: str) -> str:
    """`text` with variables set before it, as one command line."""
    sets = "; ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return f"sh -c {shlex.quote(f'{sets}{chr(10)}{text}')}"
