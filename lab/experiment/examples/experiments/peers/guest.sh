#!/bin/busybox sh
# The first process of the guest: three network namespaces in a row, one qdisc, and the lab's traffic tools.
#
#   sender s (10.0.0.1 to .3) --- s0 [ this one, forwards ] r0 --- receiver r (10.0.1.1 to .3)
#                                                           `-- qdisc at 10 Mbit/s
#
# From the kernel's command line: QUEUE, SEED, SECONDS_ALL, SECONDS_WARM_UP, the senders ONE, TWO, THREE, and for TCP the
# round trip and whether it uses ECN: RTT, ECN.
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs tmp /run
busybox mkdir -p /run/netns
for module in /modules/*.ko; do busybox insmod "$module"; done

# Full paths: the shell prefers commands of its own.
for side in s r; do
    net=$([ $side = s ] && echo 10.0.0 || echo 10.0.1)
    /bin/ip netns add $side
    /bin/ip link add ${side}0 type veth peer name ${side}1 netns $side
    /bin/ip addr add $net.254/24 dev ${side}0
    /bin/ip link set ${side}0 up
    for host in 1 2 3; do /bin/ip -n $side addr add $net.$host/24 dev ${side}1; done
    /bin/ip -n $side link set ${side}1 up
    /bin/ip -n $side route add default via $net.254
    /bin/ip netns exec $side /bin/busybox sh -c "echo ${ECN:-0} > /proc/sys/net/ipv4/tcp_ecn"
done
# Each sender has an address of its own, and no segments larger than a frame: the model has neither TSO nor GSO.
for host in 1 2 3; do
    /bin/ip -n s route add 10.0.1.$host via 10.0.0.254 src 10.0.0.$host
done
for end in s1 r1; do /bin/ip -n ${end%1} link set $end gso_max_segs 1; done
[ -z "$RTT" ] || /bin/tc qdisc add dev s0 root netem delay $RTT limit 10000
echo 1 > /proc/sys/net/ipv4/ip_forward

case $QUEUE in
cake) /bin/tc qdisc add dev r0 root cake bandwidth 10mbit besteffort ;;
fq_codel)
    /bin/tc qdisc add dev r0 root handle 1: htb default 1
    /bin/tc class add dev r0 parent 1: classid 1:1 htb rate 10mbit burst 1600 cburst 1600
    /bin/tc qdisc add dev r0 parent 1:1 fq_codel
    ;;
esac

/bin/ip netns exec r /bin/weir traffic sink --udp 9001 --udp 9002 --udp 9003 \
    --tcp 9001 --tcp 9002 --tcp 9003 \
    --duration "$SECONDS_ALL s" --warm-up "$SECONDS_WARM_UP s" > /run/received &
receiver=$!
busybox sleep 1
for sender in "$ONE" "$TWO" "$THREE"; do
    # The words of a sender are separate arguments, the protocol first.
    /bin/ip netns exec s /bin/weir traffic $sender --seed "$SEED" \
        --spacing "jittered 0.1" --duration "$SECONDS_ALL s" > /run/sent &
done
wait $receiver
busybox cat /run/received
/bin/tc -s -j qdisc show dev r0
echo "the guest is done"
busybox poweroff -f
