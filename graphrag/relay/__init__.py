"""Calls in which the telephone service recognises and speaks, by Twilio's ConversationRelay.

`relay_dialogue` is the state machine of such a call: signals in, actions out, no I/O. It works on
`agent_speech` (what was said and heard) and writes `relay_messages`. `spoken_text` takes out of
answers what cannot be read aloud; `relay_attributes` are those of the TwiML.

From outside: `relay_dialogue`, `relay_messages`, `relay_attributes` and `spoken_text`.
"""
