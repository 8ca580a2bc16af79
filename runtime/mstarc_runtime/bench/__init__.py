"""`mstarc bench`: load on plans and on servers, and what they made of it.

A job (JSON, from `mstarc bench`) → requests drawn by a seed → one `Record` a request → figures, a
table, a picture and a JSON file. `job` and `draw` say what is asked, `load` when; `plan_service`
and `http_service` answer; `figures` sums up, `table` and `picture` show.

Each plan is measured in a process of its own (`measure`), so that what one leaves on a device is
gone before the next. Nothing here knows how a step runs. Start with `job`, then `load`.
"""
