#!/bin/sh
# Runs inside the test VM as its first process, as root, on a kernel whose limits are all in cgroup v2. First it proves
# that the controllers work here; then it runs each program of /run/vm/programs, a line `path<TAB>gtest filter` each.
# The host reads one line for each result and, at the end, `VM-RESULT pass=N fail=N`.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
readonly CGROUP=/sys/fs/cgroup
pass=0
fail=0

report() { # name, status
  if [ "$2" -eq 0 ]; then
    pass=$((pass + 1))
    echo "VM-TEST ok $1"
  else
    fail=$((fail + 1))
    echo "VM-TEST FAILED $1 (status $2)"
  fi
}

new_group() { # name, file, value
  mkdir "$CGROUP/$1" && echo "$3" >"$CGROUP/$1/$2"
}

memory_is_bounded() {
  new_group check-memory memory.max 16M || return 1
  # dd fills a buffer four times as large as the group may have.
  sh -c 'echo $$ >"$0/cgroup.procs" && exec dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null' \
    "$CGROUP/check-memory"
  [ $? -eq 137 ] && grep -q '^oom_kill 1$' "$CGROUP/check-memory/memory.events"
}

processes_are_bounded() {
  new_group check-pids pids.max 1 || return 1
  if sh -c 'echo $$ >"$0/cgroup.procs"; (:)' "$CGROUP/check-pids" 2>/dev/null; then
    return 1
  fi
  grep -q '^max [1-9]' "$CGROUP/check-pids/pids.events"
}

processor_is_bounded() {
  new_group check-cpu cpu.max '20000 100000' || return 1
  sh -c 'echo $$ >"$0/cgroup.procs"
    rounds=0
    while [ $rounds -lt 2000 ]; do
      i=0
      while [ $i -lt 500 ]; do i=$((i + 1)); done
      while read -r key value; do
        [ "$key" = nr_throttled ] && [ "$value" -gt 0 ] && exit 0
      done <"$0/cpu.stat"
      rounds=$((rounds + 1))
    done
    exit 1' "$CGROUP/check-cpu"
}

run_program() { # path, filter
  name=$(basename "$1")
  echo "VM-RUN $name $2"
  CAISSON_IN_VM=1 GTEST_COLOR=no GTEST_OUTPUT="xml:/run/vm-results/vm-$name.xml" "$1" "--gtest_filter=$2" </dev/null
  report "$name" $?
}

# The firmware leaves its last line unfinished.
echo
echo "VM-BOOTED $(uname -r)"
echo "+cpu +memory +pids +io" >"$CGROUP/cgroup.subtree_control"
for check in memory_is_bounded processes_are_bounded processor_is_bounded; do
  $check
  report "$check" $?
done
rmdir "$CGROUP/check-memory" "$CGROUP/check-pids" "$CGROUP/check-cpu"

# The kernel gives its first process fewer descriptors than a server has.
# shellcheck disable=SC3045  # The shells of Debian and busybox have it.
ulimit -n 20000
set -a
# shellcheck disable=SC1091  # run-vm writes it.
. /run/vm/environment
set +a
cd /run/caisson-vm || exit 1
tab=$(printf '\t')
while IFS=$tab read -r program filter; do
  run_program "$program" "$filter"
done </run/vm/programs

echo "VM-RESULT pass=$pass fail=$fail"
sync
exec busybox poweroff -f
