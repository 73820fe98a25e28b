"""CAGE Challenge 4 in compiled code: seed for seed the episodes of CybORG 4.

Actions and seeds come in, observations and rewards come out. Each function names the class of
CybORG that it follows. The whole true state is kept, the order of its containers included: see
`state`. Start with `batched_simulator`, then `episode`.
"""
