#!/usr/bin/env python3
"""A piece of cable that delays packets and lets them overtake each other, for hosts.py: a process that carries
Ethernet frames from one interface to another and back.

  relay.py carry NEAR FAR MS JITTER_MS PERCENT
                               each frame MS later, and up to JITTER_MS more; PERCENT of them at once, past all
                               that wait. Returns when it carries; ends when one of the interfaces is gone
  relay.py whole INTERFACE     what goes out there from now on is as it is on a wire: of a packet's size, with
                               its checksum
  relay.py offload INTERFACE   undoes that

What a kernel hands to a virtual cable may be 64 KiB long and without a checksum, which whoever reads it off and
writes it elsewhere would spoil: what leads to the relay has to be `whole`.
"""

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import signal
import socket
import struct
import sys
import time

ALL_PROTOCOLS = 3           # ETH_P_ALL
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SO_RCVBUFFORCE = 33
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
MOST_WAITING = 5000         # what comes then is lost, as in any router
AT_ONCE = 64                # frames taken from one side before those that are due go out


def open_end(interface):
    """Reads what comes in there, writes what shall go out."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    for option in SO_RCVBUFFORCE, socket.SO_RCVBUF:
        try:
            end.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
            break
        except PermissionError:  # only of the machine's root
            pass
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.bind((interface, ALL_PROTOCOLS))
    end.setblocking(False)
    return end


def carry(ends, delay, jitter, overtaking):
    """Until one of the ends is gone, which raises OSError."""
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    waiting, number = [], itertools.count()
    while True:
        rest = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select(ends, [], [], rest)[0]:
            for _ in range(AT_ONCE):
                try:
                    frame = end.recv(65536)
                except BlockingIOError:
                    break
                if len(waiting) < MOST_WAITING:
                    now = time.monotonic()
                    late = 0 if random.random() < overtaking else delay + random.random() * jitter
                    heapq.heappush(waiting, (now + late, next(number), other[end], frame))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, end, frame = heapq.heappop(waiting)
            try:
                end.send(frame)
            except BlockingIOError:  # no room: lost
                pass


def offload(interface, value):
    """Whether the kernel leaves checksums, and with them cutting into packets, to the interface."""
    request = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STXCSUM, value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL,
                    struct.pack("16sP16x", interface.encode(), ctypes.addressof(request)))


def main(words):
    if words[0] in ("whole", "offload"):
        offload(words[1], words[0] == "offload")
        return
    ends = [open_end(words[1]), open_end(words[2])]
    delay, jitter, percent = map(float, words[3:6])
    if os.fork() != 0:
        os._exit(0)  # whoever asked for it goes on
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in 0, 1, 2:
        os.dup2(nothing, fd)
    try:
        carry(ends, delay / 1000, jitter / 1000, percent / 100)
    except OSError:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
