#!/bin/sh
# The network of docs/forces-tutorial.md: `sh forces_network.sh up` makes it, `down` removes it. The namespaces are
# weir-ce, weir-edge1, weir-edge2, weir-home and weir-far.
#
#   home 10.0.1.2 ---- edge1 ---- 10.0.0.0/24 ---- edge2 ---- 10.0.2.2 far
#                        |                           |
#                    10.9.1.0/24                 10.9.2.0/24
#                        +----------- ce ------------+
set -eu

join() { # NAMESPACE DEVICE ADDRESS, twice: a link between both
    ip -n "$1" link add "$2" type veth peer name "$5" netns "$4"
    ip -n "$1" address add "$3" dev "$2"
    ip -n "$4" address add "$6" dev "$5"
    ip -n "$1" link set "$2" up
    ip -n "$4" link set "$5" up
}

case "${1:-}" in
up)
    for host in weir-ce weir-edge1 weir-edge2 weir-home weir-far; do
        ip netns add $host
        ip -n $host link set lo up
    done
    join weir-ce to1 10.9.1.1/24 weir-edge1 control 10.9.1.2/24
    join weir-ce to2 10.9.2.1/24 weir-edge2 control 10.9.2.2/24
    join weir-home eth0 10.0.1.2/24 weir-edge1 lan 10.0.1.1/24
    join weir-edge1 wan 10.0.0.1/24 weir-edge2 wan 10.0.0.2/24
    join weir-far eth0 10.0.2.2/24 weir-edge2 lan 10.0.2.1/24
    ip -n weir-home route add default via 10.0.1.1
    ip -n weir-far route add default via 10.0.2.1
    ip -n weir-edge1 route add 10.0.2.0/24 via 10.0.0.2
    ip -n weir-edge2 route add 10.0.1.0/24 via 10.0.0.1
    for edge in weir-edge1 weir-edge2; do
        ip netns exec $edge sysctl -qw net.ipv4.ip_forward=1
    done
    ;;
down)
    for host in weir-ce weir-edge1 weir-edge2 weir-home weir-far; do
        ip netns delete $host
    done
    ;;
*)
    echo "usage: $0 up|down" >&2
    exit 2
    ;;
esac
