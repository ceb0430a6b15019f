#!/bin/sh
# How busy a control element (CE) is: `sh ce_load.sh THREADS FES EVENTS [TRANSPORT]` starts `weir ce` with this number of
# threads on loopback, and FEs that send this number of events of 100 B a second each. It prints the share of a processor that
# each thread of the CE uses for five seconds. TRANSPORT is quic (the default) or tcp_udp; both prove who is who.
set -eu

threads=$1 fes=$2 events=$3 transport=${4:-quic}
place=$(mktemp -d)
load= ce=
trap 'kill $ce $load 2> /dev/null || true; wait; rm -r "$place"' EXIT

weir keys "$place/ce" > /dev/null
cat > "$place/ce.toml" <<END
socket = "$place/ce.sock"
store = "ce.store"
certificate = "ce.crt"
key = "ce.key"
threads = $threads
[listen.main]
address = "127.0.0.1:6704"
transport = "$transport"
END
for fe in $(seq "$fes"); do
    weir keys "$place/fe-$fe" > /dev/null
    printf '[fe.f%s]\nid = %s\ncertificate = "fe-%s.crt"\n' "$fe" "$fe" "$fe" >> "$place/ce.toml"
done
weir ce "$place/ce.toml" 2> /dev/null &
ce=$!
timeout 20 sh -c "until [ -S $place/ce.sock ]; do sleep 0.1; done"

# The program begins to send when it reads a line.
mkfifo "$place/begin"
weir traffic load fe 127.0.0.1:6704/6704 --fes "$fes" --per-s "$events" --duration "8 s" --dead "60 s" \
    --transport "$transport" --keys "$place" < "$place/begin" > "$place/said" &
load=$!
exec 3> "$place/begin"
timeout 60 sh -c "until grep -q connected $place/said; do sleep 0.1; done"
echo begin >&3
sleep 2

busy() { # nanoseconds of each thread so far
    for thread in /proc/$ce/task/*; do
        echo "${thread##*/} $(cat "$thread/comm") $(cut -d' ' -f1 "$thread/schedstat")"
    done
}
busy > "$place/before"
sleep 5
busy | join "$place/before" - | awk '{ printf "%-16s %.3f\n", $2, ($5 - $3) / 5e9 }'
