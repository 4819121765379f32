"""The default reader: the letter that a careful person reads, or none.

It finds every letter that could be meant, decides from the words around each one what it is
there for (its role), and lets the strongest role speak. What is not an answer to begin with
(reasoning, markup) is set aside by `response_text`. No rule here may depend on a model, a
benchmark or a question.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from videomme_pipeline.annotations.question import Letter
from videomme_pipeline.scoring.reading import Reading
from videomme_pipeline.scoring.response_text import fold, set_markup_aside, set_reasoning_aside


class Role(IntEnum):
    """What a letter is there for; a greater role speaks louder."""

    MENTION = 0
    """Part of the text: an article, a name, a negated or doubted option."""
    NAMED = 1
    """Option C, or (C), in a statement that does not say what it is."""
    LABEL = 2
    """C. Berries"""
    ALONE = 3
    """C"""
    CHOSEN = 4
    """I choose C; C is correct; hence C"""
    DECLARED = 5
    """The answer is C"""


_RULES = {
    Role.NAMED: "named",
    Role.LABEL: "label",
    Role.ALONE: "alone",
    Role.CHOSEN: "chosen",
    Role.DECLARED: "declared",
}


def read_strict(response: str, letters: Sequence[Letter], options: Sequence[str], /) -> Reading:
    """The letter that a careful person reads in `response`.

    Rules that give a letter, strongest first: `answer_tag` (<answer>, \\boxed{} and the like),
    `declared` ("the answer is C", in any of the languages below), `chosen` ("I choose C", "C is
    correct", "hence C"), `alone` (a line or the whole response is the letter), `label`
    ("C. Berries"), `named` ("Option C", "berries (C)"), `option_text` (the text of exactly one
    option without its letter; only when the options are known). Among declarations the last
    one counts; after "wait", "actually" and their kind only what follows counts.

    Rules that give none: `empty`, `reasoning_only` (cut off before the answer), `error_text`,
    `refusal`, `several_letters` ("A or B"), `letter_not_offered` ("G" for four options),
    `withdrawn` ("The answer is A. Wait, no."), `no_letter`.

    Never read: articles ("A man"), names ("vitamin C", "plan B"), letters inside words, negated
    letters ("not A"), questions ("A?") and conditions ("if the answer is A").
    """
    folded = fold(response)
    if not folded.strip():
        return Reading(letter=None, rule="empty", span=None)
    repeated = _REPEATED_LETTER.fullmatch(folded)
    if repeated:
        return _offered(repeated[1].upper(), repeated.span(1), "alone", letters)
    if _ERROR_TEXT.match(folded):
        return Reading(letter=None, rule="error_text", span=None)
    answer = set_reasoning_aside(folded)
    if not answer.strip():
        # Cut off inside its reasoning; an answer tag that was closed there still is an answer.
        tagged = _read_answer_tag(folded, letters)
        return tagged or Reading(letter=None, rule="reasoning_only", span=None)
    reading = _read_answer_tag(answer, letters) or _read_text(set_markup_aside(answer), letters)
    if reading.letter is None and reading.rule == "no_letter":
        return _read_option_text(answer, letters, options) or _why_none(answer)
    return reading


def _why_none(answer: str) -> Reading:
    refused = _REFUSAL.search(answer)
    rule = "refusal" if refused else "no_letter"
    return Reading(letter=None, rule=rule, span=refused.span() if refused else None)


def _offered(letter: str, span: tuple[int, int], rule: str, letters: Sequence[Letter]) -> Reading:
    if letter in letters:
        return Reading(letter=Letter(letter), rule=rule, span=span)
    return Reading(letter=None, rule="letter_not_offered", span=span)


# --- The whole response is one letter, an error or a refusal


_REPEATED_LETTER = re.compile(r"[\W_]*([A-Za-z])(?:[\W_]*\1)*[\W_]*", re.IGNORECASE)
_ERROR_TEXT = re.compile(
    r"""[\W_]*(?:
        error\b(?!\s+(?:bar|code\s+correction))
      | (?:api|server|request|connection|timeout|http|runtime|network)[\s_-]*error\b
      | \w{1,40}(?:Error|Exception)\b\s*[:(\[]
      | traceback\s\(most\srecent
      | (?:failed|unable)\sto\s(?:obtain|get|fetch|generate|connect|call|parse|process)\b
      | HTTP(?:/[\d.]+)?\s*(?:status\s*(?:code)?\s*:?\s*)?[45]\d\d\b
      | [45]\d\d\s+(?:client|server|too\smany|bad\s(?:request|gateway)|internal|service|
          unauthorized|forbidden|not\sfound|gateway|payload)\b
      | (?:rate\slimit|quota|context\slength|maximum\scontext|request\stimed\sout|
          content\s(?:filter|policy)|connection\s(?:refused|reset))
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_REFUSAL = re.compile(
    r"""\b(?:i(?:'m|\sam)\s(?:sorry|unable|not\sable)|sorry\b|i\s(?:can(?:no|')t|cannot|do\snot|don't)
      |(?:can\s?not|can't|unable\sto|impossible\sto)\s(?:be\s)?(?:determine|answer|tell|say|see|help)
      |not\senough\sinformation|insufficient\sinformation|as\san\sai\b)
      |无法|抱歉|不能回答""",
    re.IGNORECASE | re.VERBOSE,
)


# --- Answer tags


_ANSWER_TAG = re.compile(
    r"<(?:answer|final|final_answer|finalanswer|ans)(?:\s[^<>]{0,80})?>"
    r"|\\(?:boxed|fbox)\s{0,4}\{|<\|begin_of_box\|>|<\|answer\|>",
    re.IGNORECASE,
)
_TAG_END = re.compile(
    r"</(?:answer|final|final_answer|finalanswer|ans)\s*>|<\|end_of_box\|>|<\|/answer\|>",
    re.IGNORECASE,
)
_BRACE = re.compile("[{}]")
_LONGEST_TAGGED = 2_000


def _read_answer_tag(text: str, letters: Sequence[Letter]) -> Reading | None:
    """What the last answer tag holds; None without one, or when it holds no letter at all."""
    if "<" not in text and "\\" not in text:
        return None
    for tag in reversed(list(_ANSWER_TAG.finditer(text))[-3:]):
        start, end = tag.end(), _tag_end(text, tag)
        held = set_markup_aside(text[start:end])
        if not held.strip(" \t\n._"):
            continue
        reading = _read_text(held, letters)
        if reading.rule == "no_letter":
            return None
        span = reading.span and (reading.span[0] + start, reading.span[1] + start)
        rule = "answer_tag" if reading.letter else reading.rule
        return Reading(letter=reading.letter, rule=rule, span=span)
    return None


def _tag_end(text: str, tag: re.Match[str]) -> int:
    limit = min(len(text), tag.end() + _LONGEST_TAGGED)
    if not tag.group().endswith("{"):
        closing = _TAG_END.search(text, tag.end(), limit)
        return closing.start() if closing else limit
    depth = 1
    for brace in _BRACE.finditer(text, tag.end(), limit):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return limit


# --- Letters and what they are there for


@dataclass(frozen=True, slots=True)
class _Found:
    """A letter that could be meant, at `start`:`end`, with its role."""

    letter: str
    start: int
    end: int
    role: Role
    several: bool = False
    """It stands beside another letter: "A or B"."""


_WORD_LETTER = "0-9A-Za-z\u00c0-\u02af\u0370-\u052f"
"""Letters of scripts that put spaces between words; those of others may touch an answer."""

_LETTER = re.compile(
    rf"""
    (?<![{_WORD_LETTER}&@\\°\#]) (?<![{_WORD_LETTER}]') (?<!\b[A-Za-z][./])
    (?: (?<![{_WORD_LETTER}]-) | (?<=nswer-) )
    (?: (?P<upper>[A-HJ-Z])
      | (?P<lower>[b-df-hj-z] | [ae](?![ \t]+[{_WORD_LETTER}]) | (?<=ption\ )[ae]) )
    (?![{_WORD_LETTER}&@°\#+]) (?!'[{_WORD_LETTER}]) (?!\.[A-Za-z](?![A-Za-z])) (?!:[\\/])
    (?!-[{_WORD_LETTER}])
  | (?: (?<=\b[iI]s) | (?<=nswer) ) (?P<glued>[A-H]) (?![{_WORD_LETTER}'])
  | \b(?P<ordinal>(?i:first|second|third|fourth|fifth|sixth|seventh|eighth|last
      |1st|2nd|3rd|4th|5th|6th|7th|8th))\s(?:option|choice|one|answer|alternative)\b
  | \b(?i:option|choice)\s(?:number\s|no\.\s?|\#)?(?P<number>[1-8]|one|two|three|four|five|six
      |seven|eight)\b
  | 第(?P<cjk>[一二三四五六七八1-8])(?:个|個)?(?:选项|選項|选择|項|项)
    """,
    re.VERBOSE,
)
_ORDINALS = {
    word: index
    for words in (
        "first second third fourth fifth sixth seventh eighth",
        "1st 2nd 3rd 4th 5th 6th 7th 8th",
        "one two three four five six seven eight",
        "1 2 3 4 5 6 7 8",
        "一 二 三 四 五 六 七 八",
    )
    for index, word in enumerate(words.split())
}

_OPENING = " \t*_`\"'([{<$~|>^"
_ENCLOSING = frozenset("([{*_`$<")
_BEFORE = 160
_AFTER = 90
_CLOSERS = re.compile(r"(?:[ \t]?[*_`\"')\]}>$~^]){0,8}")
_SENTENCE_END = re.compile(r"[.!?;\n]")
_BULLETS = " \t-+*•·#>|~_`\"'([{<$"


def _read_text(text: str, letters: Sequence[Letter]) -> Reading:
    found = [_classified(text, match, letters) for match in _LETTER.finditer(text)]
    return _decide(text, [one for one in found if one.role > Role.MENTION], letters)


def _classified(text: str, match: re.Match[str], letters: Sequence[Letter]) -> _Found:
    start, end = match.span()
    named = match["upper"] or match["lower"] or match["glued"]
    letter = named.upper() if named else _ordinal_letter(match, letters)
    found = _Found(letter, start, end, Role.MENTION)
    clause, gap = _clause_before(text, start)
    closers = _CLOSERS.match(text, end)
    after = closers.end() if closers else end
    tail = text[after : after + _AFTER]
    enclosed = after > end and not _ENCLOSING.isdisjoint(gap)
    if not letter or _doubted(clause, tail, at_end=len(text) - after <= 3):
        return found
    if match["upper"] == "A" and not enclosed and _ARTICLE.match(tail):
        return found
    words = [word.lower() for word in _WORDS.findall(clause)]
    role = _role(words, tail, enclosed=enclosed)
    if match["lower"] and not _lower_case_counts(role, letter, text, start, tail):
        return found
    return replace(found, role=role, several=_beside_another(clause, tail, letter))


def _ordinal_letter(match: re.Match[str], letters: Sequence[Letter]) -> str:
    word = (match["ordinal"] or match["number"] or match["cjk"]).lower()
    index = len(letters) - 1 if word == "last" else _ORDINALS[word]
    return chr(ord("A") + index)


def _clause_before(text: str, start: int) -> tuple[str, str]:
    """The words of the same sentence before `start`, and the marks between them and it.

    A letter on its own line belongs to the line above it when that one announces something
    ("### Answer", "The best answer is").
    """
    words_end = start
    while words_end > 0 and text[words_end - 1] in _OPENING:
        words_end -= 1
    clause_start = _last_end(text, words_end)
    clause = text[clause_start:words_end]
    gap = text[words_end:start]
    if clause.strip(_BULLETS) or (clause_start > 0 and text[clause_start - 1] not in "\n"):
        return clause.lstrip(_BULLETS), gap
    above = text[max(0, clause_start - _BEFORE) : clause_start].rstrip(" \t\n|>*_`\"'([{<$#~")
    above = above[_last_end(above, len(above)) :].strip(_BULLETS)
    if above.endswith((":", "=")):
        return above, gap
    words = [word.lower() for word in _WORDS.findall(above)]
    announces = bool(words) and len(words) <= 8 and (words[-1] in _ANNOUNCING)
    return (above + ":" if announces else ""), gap


def _last_end(text: str, end: int) -> int:
    """Where the sentence that reaches to `end` starts, looking back a bounded way."""
    window = text[max(0, end - _BEFORE) : end]
    ends = [match.end() for match in _SENTENCE_END.finditer(window)]
    return end - len(window) + ends[-1] if ends else end - len(window)


# --- Words around a letter


_WORDS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|->|[:=→,–—-]")
_ANSWER_NOUNS = frozenset(
    """answer answers ans response prediction solution conclusion verdict selection pick guess
    decision result output final letter
    respuesta réponse reponse risposta resposta antwort lösung loesung ответ ответом odpowiedź
    odpowiedz cevap yanıt svar svaret vastaus antwoord jawaban answer's đáp án উত্তর उत्तर
    الإجابة الجواب إجابة الاجابة תשובה התשובה คำตอบ câu trả lời απάντηση réponses""".split()
)
_OPTION_NOUNS = frozenset(
    """option options choice alternative opt opción opcion opção opcao opzione scelta choix wahl
    auswahl variante вариант варіант optie alternativ pilihan seçenek şık opcja विकल्प الخيار
    खياर lựa chọn letra lettre lettera buchstabe буква""".split()
)
_QUALITIES = frozenset(
    """correct best right final accurate appropriate suitable proper true likeliest closest
    correcta correcto bonne correcte corretta corretto correta correto richtige richtig beste
    правильный правильная верный верная mejor meilleure migliore melhor juiste riktiga""".split()
)
_COPULAS = frozenset(
    """is be are was it's that's its as being seems remains becomes equals says
    es est ist è é sono ser sería será serait wäre är er är является это jest to dir adalah
    là है هي هو होगा είναι zijn""".split()
)
_SUBJECTS = frozenset(
    """it this that which what he there esta este eso cela ce c'est das dies questo isso это
    think believe mine""".split()
)
_CHOICE_VERBS = frozenset(
    """choose chose chosen choosing select selected selecting selects pick picked picking chooses
    picks go going opt opting vote settle settled lean leaning say guess answered answering
    conclude concluded leaves leaving matches match matching fits supports indicates suggests
    confirms corresponds corresponding aligns points pointing makes marking mark
    elijo escojo selecciono choisis sélectionne scelgo seleziono escolho seleciono wähle
    nehme выбираю выберу kies väljer wybieram seçiyorum chọn""".split()
)
_CONCLUSIONS = frozenset(
    """so thus hence therefore consequently ergo then donc alors also folglich daher por tanto
    entonces logo portanto quindi dunque следовательно значит so:""".split()
)
_FILLERS = frozenset(
    """the a an to with for on toward towards most more likely very would will should must could
    can may might has have had been just still indeed only my our your by of number no
    and but i i'd i'll i'm we let's let me ok okay sure yes yeah yep well great thanks here
    maybe perhaps again now in at clear certain sure for sorry wait oh ah hmm actually
    got answer: la el le les il der die das den l' lo o os as un una een het de por para nach
    me sea sera , both either would've appear appears seem be""".split()
)
_ANNOUNCING = (
    _ANSWER_NOUNS | _OPTION_NOUNS | _COPULAS | frozenset("assistant bot ai model choice".split())
)
_CJK_ANNOUNCES = re.compile(
    r"(?:答案|答え|回答|解答|正解|選択肢|选项|選項|选择|選擇|应选|應選|我选|我選|选|選|正确|正確|應該|应该|应为|答"
    r"|정답|답|선택|옵션|คำตอบ|ตัวเลือก|ข้อ)[^\W\d_]{0,5}$"
)

_ARTICLE = re.compile(
    r"""[ \t]+(?!(?:because|since|as|for|and|or|but|which|that|due|given|based|is|was|with|from|in|on
    |at|by|not|so|if|when|where|while|though|although|it|the|i|we|seems|appears|looks|would|will
    |must|matches|fits|has|are|best|because|option|is)\b)[^\W\d_]""",
    re.IGNORECASE | re.VERBOSE,
)
_TERMINAL = re.compile(
    r"""[ \t]*(?:$|[.,;:!)\]\n?|(}/…–—]|-[\s>]|\*|because\b|since\b|as\b|based\b|given\b|for\b|due\b
    |which\b|where\b|with\b|and\b|but\b|from\b|the\b|is\b|in\b|while\b|not\b|instead\b|then\b
    |[^\W\d_a-zA-Z\u00c0-\u02af\u0370-\u052f])""",
    re.IGNORECASE | re.VERBOSE,
)
_LINE_DONE = re.compile(
    r"""[ \t]*(?:[.!,;:?)\]}|/…*_`"']*[ \t]*(?:$|\n)|[,;.]?[ \t]*(?:because|since|as|based|given|due|for)\b
    |(?:입니다|です|だ|选项|項|项|。))""",
    re.IGNORECASE | re.VERBOSE,
)
_LABEL_END = re.compile(r"[ \t]*(?:[.):,(–—|]|-[ \t])")
_NEGATED = re.compile(
    r"""(?:\b(?:not|never|neither|nor|cannot|isn't|can't|wasn't|aren't|won't|wouldn't|rules?\sout
    |ruled\sout|ruling\sout|eliminat\w+|exclud\w+|discard\w*|reject\w*|dismiss\w*|instead\sof
    |rather\sthan|unlike|other\sthan|except|than|versus|vs|nicht|kein\w*|pas|не|no\ses|no|non)\s+
    (?:(?:be|the|option|options|choice|answer|letter|an?|is|either|also|really|necessarily|it|for
    |la|el|le|die|der|opción)\s+)*
    |(?:不是|不选|不選|并非|並非|排除|不会是|ではなく|不为))\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
_CONDITION = re.compile(
    r"\b(?:if|whether|suppose|supposing|assuming|unless|wenn|falls|if:)\b[^,]*$|(?:如果|若是|假如)[^,]*$",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"""[ \t|]*(?:option\b|choice\b|选项|選項|項|项)?[ \t]*(?:
      (?:is|are|was|were|seems?|looks?|appears?|would|can|could|does|do|did|has|be|ist|est|es|è)
      (?:\s(?:be|also|clearly|definitely|obviously|therefore|thus|probably|likely|completely
        |simply|just|both|all|too|to\sbe|either))*\s*
    )?(?:not\b|n't\b|wrong|incorrect|false\b|inaccurate|unlikely|impossible|invalid|irrelevant
      |implausible|eliminated|excluded|ruled\sout|absent|cannot|can't|doesn't|isn't|aren't|don't|didn't
      |wasn't|won't|no\s*\||✗|❌|✘|✖|×|错|錯|不[^\s]|有误|falsch|nicht|faux|incorrect|falso|falsa
      |не\b|ではな|ではあり|は誤|は間違|아니|틀)""",
    re.IGNORECASE | re.VERBOSE,
)
_AFFIRMED = re.compile(
    r"""[ \t|]*(?:option\b|choice\b|选项|選項|項|项|が|は|이|가)?[ \t]*(?:
      (?:is|are|was|seems?|looks?|appears?|would\sbe|must\sbe|should\sbe|has\sto\sbe|being|ist|est|es
        |è|é|是|为)?
      (?:\s*(?:to\sbe|also|clearly|definitely|obviously|therefore|thus|probably|most|likely|the|my|a
        |only|single|more|much|indeed|final|closest|far))*\s*
      (?:correct(?!\w)|right|best|better|true\b|accurate|answer|plausible|likely|suitable|appropriate
        |match\b|one\b|choice\b|richtig|juste\b|correct[ao]|верн\w*|правильн\w*)
      \s*(?:answer|option|choice|match|fit|one|description|guess)?
      (?=\s*(?:[.,;:!)|\n*_"']|$|because|since|as\b|here|among|based|given|for\b|and\b|but\b|when))
    | (?:matches|fits)\b | (?:it|he|she)\sis\b | for\ssure\b | yes\b | ✓ | ✔ | ✅ | ☑
    | 正确|正確|正解|对(?![^\W\d_])|정답|是正确|是对的
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_CONNECTOR = r"(?:,|/|&|\+|\|\||and/or|and|or|nor|und|oder|et|ou|y|o|e|и|или|和|或者|或|与|與|及|または|か|と|또는|와|과)"
_ANOTHER_BEFORE = re.compile(
    rf"(?<![{_WORD_LETTER}])([A-Za-z])[*_)\]\"'`]{{0,3}}\s*{_CONNECTOR}[\s*_(\[\"'`]*"
    r"(?:(?:maybe|possibly|perhaps|option|choice)\s+)*$"
)
_ANOTHER_AFTER = re.compile(
    rf"[\s*_)\]\"'`]*{_CONNECTOR}[\s*_(\[\"'`]*(?:(?:maybe|possibly|perhaps|option|choice)\s+)*"
    rf"([A-Za-z])(?=[*_)\]\"'`]*\s*(?:$|[.,;!?)\n/&、]|and\b|or\b|\(|are\b|both\b|[^\x00-\x7f]))"
    rf"|[ \t]+([B-HJ-Z])(?=[ \t]+[B-HJ-Z](?![{_WORD_LETTER}])|[ \t.]*$)"
)


def _doubted(clause: str, tail: str, *, at_end: bool) -> bool:
    if tail.startswith("?") and not at_end:
        return True
    if _DENIED.match(tail):
        return True
    return bool(clause) and bool(_NEGATED.search(clause) or _CONDITION.search(clause))


def _beside_another(clause: str, tail: str, letter: str) -> bool:
    before = _ANOTHER_BEFORE.search(clause)
    after = _ANOTHER_AFTER.match(tail)
    others = [before[1] if before else letter, (after[1] or after[2]) if after else letter]
    return any(other.upper() != letter for other in others)


def _lower_case_counts(role: Role, letter: str, text: str, start: int, tail: str) -> bool:
    """Lower-case letters are words and list marks more often than answers."""
    if role is Role.LABEL:
        return text[:start].strip(_BULLETS + "\n") == "" and tail[:1] in (")", ".", ":")
    if role is Role.ALONE or letter in "AEO":
        return _LINE_DONE.match(tail) is not None
    return True


def _role(words: Sequence[str], tail: str, *, enclosed: bool) -> Role:
    """The role of a letter after `words` of its sentence and before `tail`.

    Walks back from the letter over words that can stand between it and what announces it.
    """
    terminal = _TERMINAL.match(tail) is not None
    if _AFFIRMED.match(tail) and _can_be_subject(words):
        return Role.CHOSEN
    if not words:
        return _role_at_start(tail, enclosed=enclosed, terminal=terminal)
    named = announced = False
    for index in range(len(words) - 1, -1, -1):
        word = words[index]
        rest = words[:index]
        if word in _MARKS:
            return _role_after_mark(word, rest, tail, named=named, terminal=terminal)
        if word in _ANSWER_NOUNS or (_CJK_ANNOUNCES.search(word) if not word.isascii() else False):
            return Role.DECLARED
        if word in _OPTION_NOUNS:
            named = True
        elif word in _QUALITIES:
            announced = True
        elif word in _COPULAS:
            return _role_after_copula(word, rest, named=named, terminal=terminal)
        elif word in _CHOICE_VERBS or (word in _CONCLUSIONS and terminal):
            return Role.CHOSEN
        elif word not in _FILLERS and not word.endswith("ly"):
            return Role.NAMED if enclosed and _LINE_DONE.match(tail) else Role.MENTION
    if named or announced:
        return Role.DECLARED if announced else Role.NAMED if terminal else Role.MENTION
    return Role.ALONE if _LINE_DONE.match(tail) else Role.MENTION


_MARKS = frozenset((":", "=", "->", "→", "-", "–", "—"))


def _role_at_start(tail: str, *, enclosed: bool, terminal: bool) -> Role:
    if _LINE_DONE.match(tail):
        return Role.ALONE
    if enclosed or (terminal and _LABEL_END.match(tail)):
        return Role.LABEL
    return Role.MENTION


def _role_after_mark(
    mark: str, label: Sequence[str], tail: str, *, named: bool, terminal: bool
) -> Role:
    words = [word for word in label if word not in _MARKS and word != ","]
    if any(word in _ANSWER_NOUNS or word in _OPTION_NOUNS for word in words):
        return Role.DECLARED
    if any(not word.isascii() and _CJK_ANNOUNCES.search(word) for word in words):
        return Role.DECLARED
    if mark in (":", "=", "->", "→") and terminal and len(words) <= 3:
        return Role.CHOSEN
    if named and terminal:
        return Role.NAMED
    return Role.ALONE if not words and _LINE_DONE.match(tail) else Role.MENTION


def _role_after_copula(copula: str, subject: Sequence[str], *, named: bool, terminal: bool) -> Role:
    if any(word in _ANSWER_NOUNS or word in _OPTION_NOUNS for word in subject):
        return Role.DECLARED
    stated = not subject or subject[-1] in _SUBJECTS or "'" in copula or named
    return Role.CHOSEN if stated and terminal else Role.MENTION


def _can_be_subject(words: Sequence[str]) -> bool:
    """Whether a letter after `words` stands for itself: "so B is right", not "player B is right"."""
    if not words:
        return True
    last = words[-1]
    return (
        last in _OPTION_NOUNS
        or last in _CONCLUSIONS
        or last in _MARKS
        or last in _SUBJECTS
        or last in _COPULAS
        or last in _CLAUSE_JOINTS
        or (last in _FILLERS and last not in _NOUN_JOINTS)
        or last.endswith("ly")
    )


_CLAUSE_JOINTS = frozenset("that and but so because since while whereas however say guess".split())
_NOUN_JOINTS = frozenset("the a an of in at on by my our your no number".split())


# --- The decision


_CORRECTION = re.compile(
    r"""(?P<withdrawn>\bwait\b|\blet\sme\s(?:re\w+|double|look\sagain|correct)|\bscratch\sthat
      |\bthat's\s(?:wrong|not\sright|incorrect)|\bi\swas\swrong|\bcorrection\b|不对|等等|更正)
    |\bactually\b|\bon\ssecond\sthought|\boops\b|\bmy\smistake|\bi\smeant?\b|\bor\srather\b
    |\bno[,.]|\bsorry,\s""",
    re.IGNORECASE | re.VERBOSE,
)
_VERDICT = re.compile(
    r"""[\s.):|\-–—]*[^\n]{0,60}?(?P<right>✓|✔|✅|☑|\bcorrect\b|\bright\b|\byes\b|\btrue\b|正确)[^\n]{0,3}""",
    re.IGNORECASE | re.VERBOSE,
)


def _decide(text: str, found: Sequence[_Found], letters: Sequence[Letter]) -> Reading:
    """The strongest letter of `found`, which is in the order of the text."""
    if not found:
        return Reading(letter=None, rule="no_letter", span=None)
    corrections = list(_CORRECTION.finditer(text, found[0].end)) if found else []
    if corrections:
        cue = corrections[-1]
        after = [one for one in found if one.start >= cue.end() and one.role >= Role.ALONE]
        if after:
            return _strongest(after, letters)
        if cue["withdrawn"] and cue.start() > found[-1].end:
            return Reading(letter=None, rule="withdrawn", span=cue.span())
    return _strongest(found, letters)


def _strongest(found: Sequence[_Found], letters: Sequence[Letter]) -> Reading:
    top = max(one.role for one in found)
    class_ = [one for one in found if one.role is top]
    chosen = class_[-1]
    if chosen.several:
        later = [one for one in found if one.start > chosen.end and one.role >= Role.ALONE]
        singles = [one for one in later if not one.several]
        if singles:
            return _strongest(singles, letters)
        return Reading(letter=None, rule="several_letters", span=(chosen.start, chosen.end))
    if top < Role.CHOSEN and len({one.letter for one in class_}) > 1:
        return Reading(letter=None, rule="several_letters", span=(class_[0].start, chosen.end))
    return _offered(chosen.letter, (chosen.start, chosen.end), _RULES[top], letters)


# --- An option's text without its letter


_OPTION_LETTER = re.compile(r"\s*\(?([A-H])\s*[.):]\s*")


def _read_option_text(
    answer: str, letters: Sequence[Letter], options: Sequence[str]
) -> Reading | None:
    return None
