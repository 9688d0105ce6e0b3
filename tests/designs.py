"""Message sets from their definitions, value by value and message by message."""

from itertools import product

import numpy as np


def hadamard(k):
    """[value, message]: whether row v + 1 of Sylvester's Hadamard matrix has a 1 there."""
    matrix = np.array([[1]])
    while len(matrix) <= k:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix[1 : k + 1] == 1


def projective(q, k):
    """[value, message]: whether two points are orthogonal over F_q; as few coordinates as k points need."""
    t = 2
    while True:
        points = [x for x in product(range(q), repeat=t) if next((c for c in x if c), 0) == 1]
        if len(points) >= k:
            return np.array(points[:k]) @ np.array(points).T % q == 0
        t += 1


def least_prime(least):
    return next(q for q in range(least, 2 * least + 3) if q > 1 and all(q % i for i in range(2, q)))
