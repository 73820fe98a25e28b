"""Red in CAGE-2: which red agents can be named, where they can play, and how users' own play.

In goes what a user gives as `red_agent`: a name, a class, an object, the path of a trained agent,
or several of these with weights. Out comes what a simulator asks for Red's actions.

Start reading at `roster`, which knows the challenge's red agents. `user_reds` makes users' red
agents ready, and `cage.trial` tries them before a run. `knowledge` follows what Red knows.
`cage2.attackers` is the interface that users write red agents for. The programs of the challenge's
red agents are in `compiled.red_agents`.
"""
