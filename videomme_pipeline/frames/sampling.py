"""Which pictures of a video to take: pure maths on a packet index, no decoding.

A strategy is one small class: its parameters are fields, `choose` is the rule. Named
placements equal those of the published evaluators.
"""
