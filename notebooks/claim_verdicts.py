"""The rule by which a number found here bears out a paper's number, or does not.

A rule says how the number has to lie: at least the paper's, at most, or about it. TOLERANCE is the
relative distance that every rule allows unless a claim states its own; for a quotient of times it
is also at most NEAR_ONE of the distance from 1, so that 1.06 is not borne out by 0.98. Halfway to
the paper's number is "partly": from 1 on a logarithmic scale for a quotient of times, from 0 for
any other number.
"""

from math import log

TOLERANCE = 0.1
NEAR_ONE = 0.25
HALFWAY = 0.5
RULES = ("at_least", "at_most", "about")
REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not reproduced"
UNMEASURED, UNJUDGED = "not measured", "cannot be judged"
VERDICTS = (REPRODUCED, PARTLY, NOT, UNMEASURED, UNJUDGED)
OF_AIMS = {REPRODUCED: "holds", PARTLY: "holds in part", NOT: "does not hold"}

TEXT = f"""* **{REPRODUCED}**: the number lies as the claim says (at least, at most, or about the paper's), within {TOLERANCE:.0%} of it unless the claim states another tolerance, and for a quotient of times within {NEAR_ONE:.0%} of the paper's distance from 1.
* **{PARTLY}**: it does not, but it is at least halfway: on the paper's side of 1 and half of the paper's distance from 1, on a logarithmic scale, for a quotient of times; within a factor of two for any other number.
* **{NOT}**: neither.
* **{UNMEASURED}**: no committed table has the numbers; the command makes them.
* **{UNJUDGED}**: nothing that runs here can decide it, or there are predictions alone, which decide nothing.

A claim of several numbers is {REPRODUCED} when all of them are, {NOT} when none is even partly, and else {PARTLY}; numbers that are {UNMEASURED} do not count.""".replace("%", " %")  # noqa: E501


def lies(found: float, paper: float, rule: str, tolerance: float, is_quotient: bool) -> bool:
    """True when the number lies to the paper's as the rule wants it."""
    slack = abs(paper) * tolerance
    if is_quotient:
        slack = min(slack, abs(paper - 1) * NEAR_ONE)
    low, high = paper - slack, paper + slack
    return (rule == "at_most" or found >= low) and (rule == "at_least" or found <= high)


def is_halfway(found: float, paper: float, rule: str, is_quotient: bool) -> bool:
    """True when the number is at least half of the paper's distance from 1 (a quotient) or 0."""
    if is_quotient:
        if found <= 0 or paper <= 0 or paper == 1:
            return False
        way = log(found) / log(paper)
    elif paper == 0:
        return False
    else:
        way = found / paper
    if rule == "about":
        return HALFWAY <= way <= 1 / HALFWAY
    grows = not is_quotient or paper > 1  # towards the paper's number
    if (rule == "at_least") == grows:
        return way >= HALFWAY
    return way <= 1 / HALFWAY


def verdict(found: float, paper: float, rule: str, tolerance: float, is_quotient: bool) -> str:
    """The verdict on one number."""
    if lies(found, paper, rule, tolerance, is_quotient):
        return REPRODUCED
    return PARTLY if is_halfway(found, paper, rule, is_quotient) else NOT


def overall(verdicts: list[str]) -> str:
    """The verdict on a claim from those on its numbers."""
    judged = [one for one in verdicts if one not in (UNMEASURED, UNJUDGED)]
    if not judged:
        return UNMEASURED if UNMEASURED in verdicts or not verdicts else UNJUDGED
    if all(one == REPRODUCED for one in judged):
        return REPRODUCED
    return NOT if all(one == NOT for one in judged) else PARTLY
