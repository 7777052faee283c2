"""How operators use what autograd saves for backward, where nothing else keeps it."""


class _Life:
    """What the log has of one storage. Places are positions in the log."""

    def __init__(self):
        self.saved_at = None   # the place of the first save
        self.save = None       # its moment
        self.release = None    # the last moment in which the program has it, too
        self.restores = set()  # moments
        self.spoiled = False   # written after it was saved
        self.freed = None      # the moment


def _lives(declarations):
    lives = {}
    for place, ((_, what, of), moment) in enumerate(zip(declarations.observer.log,
                                                         declarations.where)):
        if what == "work":
            for storage, _, _, mode in of[0]:
                life = lives.get(storage)
                if life is not None and life.saved_at is not None and mode != "read":
                    life.spoiled = True
            continue
        life = lives.setdefault(of, _Life())
        if what == "save" and life.saved_at is None:
            life.saved_at, life.save = place, moment
        elif what == "hide":
            life.spoiled = True
        elif what == "release":
            life.release = moment
        elif what == "restore":
            life.restores.add(moment)
        elif what == "free":
            life.freed = moment
    return lives


def _touches(declarations, wanted):
    """Returns for each of these storages the moments whose operators use it."""
    touches = {storage: set() for storage in wanted}
    for number, moment in enumerate(declarations.moments):
        for storage in moment.touched:
            if storage in touches:
                touches[storage].add(number)
    return touches


def _may_leave(declarations, storage, life, touches):
    """Whether autograd alone keeps the storage between forward and backward: the program's variables
    release it before, it goes when the last operator that gets it from autograd is done, and
    backward uses it only after it was restored."""
    moments = declarations.moments
    if storage not in declarations.numbers or not storage.made or life.spoiled or \
            life.freed is None or life.release is None or not life.restores:
        return False
    begin, end = min(life.restores), max(life.restores | touches)
    phases = {moments[m].phase for m in life.restores}
    backward = [m for m in touches if moments[m].phase != "forward"]
    return moments[life.save].phase == "forward" and phases == {"backward"} and \
        all(begin <= m and moments[m].phase == "backward" for m in backward) and \
        max(life.save, life.release) < begin and life.freed <= end + 1 and \
        all(m < begin for m in touches if m not in backward) and \
        moments[declarations.buffers[declarations.numbers[storage]][2]].phase == "forward"


def last_forward(moments, moment):
    while moments[moment].phase != "forward":
        moment -= 1
    return moment


def uses_of_saved(declarations):
    """Returns (buffer, moment, "use", "save" or "restore") of what may leave the device, in order."""
    lives = {storage: life for storage, life in _lives(declarations).items()
             if life.save is not None}
    touches = _touches(declarations, lives)
    uses = []
    for storage, life in lives.items():
        if not _may_leave(declarations, storage, life, touches[storage]):
            continue
        number = declarations.numbers[storage]
        begin = declarations.buffers[number][2]
        kinds = {moment: "use" for moment in touches[storage] if moment >= begin}
        kinds[last_forward(declarations.moments, life.release)] = "use"
        kinds.update((moment, "restore") for moment in life.restores)
        kinds[life.save] = "save"
        uses += [(number, moment, kind) for moment, kind in kinds.items()]
    return sorted(uses)
