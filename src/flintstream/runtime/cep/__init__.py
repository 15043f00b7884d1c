"""Complex event processing in a slot: the automaton of a pattern, its partial matches, and the operator."""
