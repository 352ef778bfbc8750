# Set up .venv with pinned dependencies; sourced by ./run and ./test with $root and $wanted set
# ("run" or "test"). Says what it does, names what is missing, and is silent when all is there.

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

find_python() {
    for name in python3.13 python3.12 python3.11 python3; do
        path=$(command -v "$name" 2>/dev/null) || continue
        if "$path" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s' "$path"
            return 0
        fi
    done
    return 1
}

check_system() {
    case $(uname -s) in
        Linux | Darwin) ;;
        *) die "Tenure runs on Linux and macOS; on Windows use WSL2, where it runs in full." ;;
    esac
    python=$(find_python) || die "Python 3.11 or newer is needed (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install python@3.12)."
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        die "This Python lacks venv and ensurepip (Debian, Ubuntu: apt-get install python3-venv)."
    free_kb=$(df -Pk "$root" | awk 'NR == 2 { print $4 }')
    [ "$free_kb" -gt 1000000 ] ||
        die "About 1 GB of free disk is needed in $root for the dependencies; $((free_kb / 1024)) MB are free."
}

# From pip's talk: on a terminal one line that counts, elsewhere a line now and then.
show_progress() {
    count=0
    while IFS= read -r line; do
        case $line in
            Collecting* | Processing* | "Requirement already"*)
                count=$((count + 1))
                if [ -t 2 ]; then
                    printf '\r  %d of about %d packages' "$count" "$1" >&2
                elif [ $((count % 25)) -eq 0 ]; then
                    say "  $count of about $1 packages"
                fi
                ;;
            "Installing collected"*)
                if [ -t 2 ]; then printf '\r  unpacking …                  ' >&2; else say "  unpacking …"; fi
                ;;
        esac
    done
    if [ -t 2 ]; then printf '\r%40s\r' '' >&2; fi
}

install() {
    say "Installing pinned dependencies into .venv (once, a minute or two) …"
    "$python" -m venv "$root/.venv" || die "The virtual environment $root/.venv could not be made."
    # One progress line a package; the rest of pip's talk goes to a log.
    log="$root/.venv/install.log"
    lists=requirements.lock
    [ "$wanted" = test ] && lists="requirements.lock requirements-dev.lock"
    # shellcheck disable=SC2086
    total=$(cd "$root" && cat $lists | grep -c '==')
    # shellcheck disable=SC2086
    {
        cd "$root" && .venv/bin/python -m pip install --no-deps --no-input \
            --disable-pip-version-check --progress-bar off $(printf -- '-r %s ' $lists) 2>&1
        echo "exit $?"
    } | tee "$log" | show_progress "$total"
    if ! grep -q '^exit 0$' "$log"; then
        grep -E '^ERROR' "$log" | head -3 >&2
        if grep -qiE 'connection|resolve|timed out|unreachable' "$log"; then
            die "The Python package index cannot be reached; check the network or proxy and start again (log: .venv/install.log)."
        fi
        die "The dependencies could not be installed; .venv/install.log has the details."
    fi
    "$root/.venv/bin/python" -m pip install -q --no-deps --no-build-isolation --no-input \
        --disable-pip-version-check -e "$root" >>"$log" 2>&1 ||
        die "Tenure itself could not be installed; .venv/install.log has the details."
}

# The stamp names what is installed; an interrupted set-up has none and is done again.
stamp="$root/.venv/installed"
key="$wanted $(cat "$root/requirements.lock" "$root/requirements-dev.lock" "$root/pyproject.toml" | cksum)"
have=$(cat "$stamp" 2>/dev/null || true)
if [ "$have" != "$key" ] && [ "$have" != "test ${key#* }" ]; then
    check_system
    install
    printf '%s' "$key" >"$stamp"
    say "Ready."
fi
