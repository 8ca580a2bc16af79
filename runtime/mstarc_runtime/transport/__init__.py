"""How messages travel: in one process, or over ZeroMQ between processes of one machine.

A `Mailbox` belongs to one participant (a rank, or the conductor) and sends to any other. Messages
from one participant to another arrive in order. Start with `mailbox`.
"""
