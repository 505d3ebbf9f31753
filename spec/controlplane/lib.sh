# shellcheck shell=bash
# What the scripts of this folder share: the cache, and a record of the processes of an instance.
#
# DIR of an instance: NAME.args (one argument a line), NAME.pid (pid and start time), log/NAME.log.
# A pid alone proves nothing: it can be somebody else's by now, or a zombie that nobody reaped.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${TIDELOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tidelock}/controlplane
marker=.tidelock-controlplane
unavailable=69 # exit status of "there is no control plane on this machine" (EX_UNAVAILABLE)
stop_order=(kwok kube-scheduler kube-controller-manager kube-apiserver etcd)

die() { # MESSAGE [STATUS]
  echo "$(basename "$0"): $1" >&2
  exit "${2:-1}"
}

need_instance() { # DIR
  [ -e "$1/$marker" ] || die "$1 holds no control plane: start one with $here/up $1"
}

# The path of a program's binary, and in `via` the argument that selects it in the built one.
locate() { # NAME
  if [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$1" ]; then
    binary=$KUBEBUILDER_ASSETS/$1 via=()
  else
    binary=$("$here/build") || exit $?
    via=("$1")
  fi
}

birth() { # PID: state and start time, nothing for a process that is gone or a zombie
  sed -n 's/.*) //p' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" && $1 != "X" { print $20 }'
}

running() { # DIR NAME
  local pid born
  read -r pid born 2>/dev/null < "$1/$2.pid" || return 1
  [ -n "$born" ] && [ "$(birth "$pid")" = "$born" ]
}

send() { # DIR NAME SIGNAL
  running "$1" "$2" || return 0
  local pid _
  read -r pid _ < "$1/$2.pid"
  kill "-$3" "$pid" 2>/dev/null || :
}

gone() { # DIR NAME SECONDS
  local tries=$(($3 * 50))
  while running "$1" "$2"; do
    [ $((tries--)) -gt 0 ] || return 1
    sleep 0.02
  done
}

stop() { # DIR NAME
  send "$1" "$2" TERM
  gone "$1" "$2" 10 && return
  send "$1" "$2" KILL
  gone "$1" "$2" 10 || die "$2 of $1 does not end"
}

start() { # DIR NAME: with the arguments of NAME.args, in a session of its own
  local binary via args
  locate "$2"
  mapfile -t args < "$1/$2.args"
  (
    cd "$1"
    exec setsid "$binary" "${via[@]}" "${args[@]}" >> "log/$2.log" 2>&1 < /dev/null
  ) &
  echo "$! $(birth $!)" > "$1/$2.pid"
}

# Waits until GET URL answers "ok"; the process ending or the time running out is an error.
await_ok() { # DIR NAME URL SECONDS
  local deadline=$((SECONDS + $4))
  until [ "$(curl -s -m 2 --noproxy '*' --insecure "$3" || :)" = ok ]; do
    if ! running "$1" "$2"; then
      tail -n 15 "$1/log/$2.log" >&2
      die "$2 ended while starting; its log is $1/log/$2.log"
    fi
    [ $SECONDS -lt $deadline ] || die "$2 was not ready within $4 s; its log is $1/log/$2.log"
    sleep 0.05
  done
}
