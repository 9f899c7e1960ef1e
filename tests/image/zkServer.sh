#!/bin/sh
# The two verbs of ZooKeeper's zkServer.sh that a container needs. JVMFLAGS, SERVER_JVMFLAGS and
# ZK_SERVER_HEAP (in MB) mean what they mean there.
config="${ZOOCFGDIR:-/conf}/zoo.cfg"
case "$1" in
start-foreground)
    # shellcheck disable=SC2086 # the flags are lists of words
    exec java "-Xmx${ZK_SERVER_HEAP:-256}m" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -XX:+ExitOnOutOfMemoryError \
        -Dorg.slf4j.simpleLogger.logFile=System.out \
        -Dorg.slf4j.simpleLogger.showDateTime=true \
        '-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS' \
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=${ZOO_LOG_LEVEL:-info}" \
        $SERVER_JVMFLAGS $JVMFLAGS -cp '/opt/zookeeper/lib/*' \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$config"
    ;;
status)
    echo srvr | nc -w 2 127.0.0.1 2181 | grep Mode:
    ;;
*)
    echo 'usage: zkServer.sh start-foreground|status' >&2
    exit 1
    ;;
esac
