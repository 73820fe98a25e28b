"""Red in CAGE-2: the names of red agents, where they can play, and how users' red agents play.

The input is what a user gives as `red_agent`: a name, a class, an object, the path of a trained
agent, or several of these with weights. The output is an object that chooses Red's actions.

Start reading at `roster`, which lists the challenge's red agents. `user_reds` makes users' red
agents ready, and `cage.trial` tries them before a run. `knowledge` computes what Red knows.
`cage2.attackers` has the interface of users' red agents. The programs of the challenge's red agents
are in `compiled.red_agents`."""
