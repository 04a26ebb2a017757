//! Calls through the four tools, by every kind of agent: what is refused, in which words, and that it reaches no server.
