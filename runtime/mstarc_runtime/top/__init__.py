"""`mstarc top`: what a server does, in a terminal, by the server's own `/debug/live`.

`feed` asks, `rates` compares two frames, `view` draws one, `screen` draws again and again and reads
keys. Start with `command`.
"""
