"""Words and patterns that determine the role of a letter, in the languages of model answers.

`careful` applies them. Add a word if a language or a phrase is missing, not to fix the reading of
one response.
"""

import re
import tomllib
from importlib import resources

WORD_LETTER = "0-9A-Za-z\u00c0-\u02af\u0370-\u052f"
"""Letters of scripts with spaces between words. In other scripts a letter may touch a word."""
_COMBINING = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff\u0e00-\u0e7f"
WORDS = re.compile(
    rf"[^\W\d_](?:[^\W\d_]|[{_COMBINING}])*(?:'[^\W\d_]+)?|\d+|->|=>|[:=→,;(–—-]", re.UNICODE
)
ARROWS = frozenset(("->", "=>", "→"))
MARKS = ARROWS | frozenset((":", "=", "-", "–", "—"))
"""Marks between a label and its value, without the comma."""


_LISTS = tomllib.loads(
    resources.files(__package__).joinpath("answer_words.toml").read_text("utf-8")
)
_PHRASES = _LISTS.pop("phrases")
NUMBERS = {word: str(number) for number, word in enumerate(_LISTS.pop("numbers").split())}
_WORD_SETS = {name: frozenset(words.split()) for name, words in _LISTS.items()}
ANSWER_NOUNS = _WORD_SETS["answer_nouns"]
THINGS = _WORD_SETS["things"]
OPTION_NOUNS = _WORD_SETS["option_nouns"]
LISTING = _WORD_SETS["listing"]
OFFERED = _WORD_SETS["offered"]
QUALITIES = _WORD_SETS["qualities"]
COPULAS = _WORD_SETS["copulas"]
SUBJECTS = _WORD_SETS["subjects"]
CHOICE_VERBS = _WORD_SETS["choice_verbs"]
PERSONAL_VERBS = _WORD_SETS["personal_verbs"]
FIRST_PERSON = _WORD_SETS["first_person"]
VISIBLE = _WORD_SETS["visible"]
PLACES = _WORD_SETS["places"]
POINTING_VERBS = _WORD_SETS["pointing_verbs"]
POINTERS = _WORD_SETS["pointers"]
CONCLUSIONS = _WORD_SETS["conclusions"]
FILLERS = _WORD_SETS["fillers"]
NOUN_JOINTS = _WORD_SETS["noun_joints"]
CLAUSE_JOINTS = _WORD_SETS["clause_joints"]
OTHER_LABELS = _WORD_SETS["other_labels"]
NO_VALUE = _WORD_SETS["no_value"]


def _phrases(name: str, before: str = "", after: str = "") -> re.Pattern[str]:
    """A pattern for the phrases of one list between `before` and `after`, as whole words."""
    either = _PHRASES[name].strip().replace(" ", r"\s").replace("\n", "|")
    begins, ends = f"(?<![{WORD_LETTER}])", f"(?:(?<![{WORD_LETTER}])|(?![{WORD_LETTER}]))"
    return re.compile(f"{before}{begins}(?:{either}){ends}{after}", re.IGNORECASE)


CONCLUDES = _phrases("concludes", before=r"\W*")
EXPLAINS = _phrases("explains", before=r"\W*")
OFFERS_HELP = _phrases("offers_help", before=r"\W*")
HEDGES = _phrases("hedges")
CONTRAST = _phrases("contrast")
BRACKETED = re.compile(r"\((?:option )?([A-Z])\)", re.IGNORECASE)
IN_PICTURE = _phrases("in_picture", before=r"\W*")
DECLARES = _phrases("declares", after=r"[\s*_$:(\"']*")

ANNOUNCES_UNSPACED = re.compile(
    r"(?:答案|答え|回答|解答|正解|正答|正し|选择|選擇|应选|應選|我选|我選|选(?!项)|選(?![項択])|选项[是为]|選項[是為]"
    r"|正确|正確|應該|应该|应为|答"
    r"|觉得是|覺得是|认为是|認為是|最も(?:考えられる|適切な)|就是|而是|可能的?是|应该是|應該是|정답|답|คำตอบ|ตอบ)\S{0,6}$"
)
"""Words of scripts without spaces that announce an answer, directly before its letter."""
NAMES_UNSPACED = re.compile(
    r"(?:因此|所以|因而|故|综上|那么|只有|选项|選項|選択肢|선택지|선택|옵션|ตัวเลือก|ข้อ)\S{0,2}$"
)

_WHY = r"(?:because|since|as|for|due|based|given|according)\b"
ARTICLE = re.compile(
    rf"""[ \t]+(?!(?:{_WHY}|(?:and|or|but|which|that|is|was|with|from|in|on|at|by|not|so|if|when
    |where|while|though|although|it|the|i|we|seems|appears|looks|would|will|must|matches|fits|has
    |are|best|option|instead|rather|over)\b))[^\W\d_]""",
    re.IGNORECASE | re.VERBOSE,
)
"""Text that follows the article A and never follows the letter A."""
TERMINAL = re.compile(
    rf"""[ \t]*(?:$|[.,;:!)\]\n?|(}}/…–—<]|\[(?!\d)|-[\s>]|\*(?![ ])|{_WHY}
    |(?:i\s(?:think|guess|believe|suppose)|which|where|with|and|but|from|the|is|in
    |while|not|instead|rather|then|over|when)\b|[^\W\d_a-zA-Z\u00c0-\u02af\u0370-\u052f])""",
    re.IGNORECASE | re.VERBOSE,
)
"""The text that can follow a letter that ends a statement."""
STATEMENT_DONE = re.compile(
    rf"""[ \t]*(?:[.!,;:?)\]}}|/…*_`"']*[ \t]*(?:$|\n)|[,;.]?[ \t]*(?:{_WHY}|not\b|instead\sof\b
    |rather\sthan\b|definitely\b|i\s(?:think|guess|believe|suppose)\b)
    |입니다|번|です|だ|(?:选项|選項|項|项)(?![^\W\d_])|[^\w\s]?[^\w\s,.:;()\[\]-]{{1,3}}\s*$)""",
    re.IGNORECASE | re.VERBOSE,
)
"""The text that can follow a letter that is a complete statement."""
LABEL_END = re.compile(
    r"[ \t]*(?:[.):,(\[{→–—|]|=[ ]?[^\W\d_]{3}[^\n\d=*+/^]*(?:\n|$)|[-/][ \t>]|[ \t]\""
    r"|[ \t](?:(?:The|It|He|She|They|There|This|Yes|No)\b|\$?\d[\d.,]*[ ]?[%°]?$))"
)
"""The text after a letter that labels what follows. "D = ST" is an equation."""
GOES_ON = re.compile(r"[ \t]*\n[a-z]+[ ]")
"""The text after a line that does not end its sentence."""

NEGATED = _phrases("negates", after=r"\W*$")
CONDITION = _phrases("condition", after="[^,;]*$")
_CASE = r"(?:(?:if|wenn|falls|si)\b|如果|若|假如)"
CASE = re.compile(rf"(?:^|[;,])\s*(?:{_CASE}|when\b|[^;,]+(?:なら|場合))[^;]*$", re.IGNORECASE)
OTHER_CASE = re.compile(
    rf"{_CASE}[^\n]*?(?:[;,]\s*{_CASE}|\botherwise\b|否则)[^;]*$", re.IGNORECASE
)
"""The words before a letter that is the answer in one of several cases, and in the second one."""
OF_ANOTHER = re.compile(
    r"""\b(?:his|her|their|(?!question|problem|video|image|that|it|here|what|let)\w+'s)
    \s(?:\w+\s)?(?:answer|choice|option|selection|guess)s?\s(?:is|was)\s$
    |(?:屏幕|黑板)上[^;,]{0,6}(?:答案|字母)[^;]{0,3}$
    |\banswers?\s(?:\w+\s){0,2}(?:on|in)\s(?:the|his|her|their|a)\s(?:slide|(?:black|white)?board|screen|paper
      |card|sheet|poster|wall|sign|(?:note|text)?book)\s(?:is|was|says|reads)\s$
    |\b(?:seine|ihre|su|sa)\s(?:antwort|respuesta|réponse)\s(?:ist|es|est)\s$
    |(?:[他她彼](?:们|們)?的?|彼女?の)(?:最终|最終)?(?:答案|答え|选择|選擇)[^;]{0,3}$
    |(?:[人孩生者手員员友师師]|他们?|她们?)(?:选|選)(?:择|擇)?了?$
    |(?:少年|少女|彼女?|[生男女人])は$
    |(?:^|\b(?:please|only|must|should|always|simply)\s)(?:answer|respond|reply)\s(?:only\s)?with\s$""",
    re.IGNORECASE | re.VERBOSE,
)
"""The words before the answer of a person in the video, or before an instruction."""
QUESTION = re.compile(
    r"\s*(?:so\s)?(?:is|are|could|would|does|do|should|can|was|why|who|how)\b", re.IGNORECASE
)
_QUOTED_TEXT = r'(?:的?"[^"\n]{1,60}")?'
"""The text of an option between its letter and a Chinese verb: 选项C的"…"是正确的."""
CONDITION_AFTER = _phrases("condition_after", before=r"\s*[,;]?\s*(?:only\s)?")
DENIED = re.compile(
    rf"""(?:\)(?=[ ](?:is|are|was|does|did)\b))?
    [ \t|]*(?:,[ ]which\b|option\b|choice\b|选项|選項|項|项)?{_QUOTED_TEXT}[ \t]*(?:
      (?:is|are|was|were|seems?|looks?|appears?|would|can|could|does|do|did|has|be|ist|est|es|è)
      (?:\s(?:be|also|clearly|definitely|obviously|therefore|thus|probably|likely|completely
        |simply|just|both|all|too|to\sbe|either))*\s*
    )?(?:not\b(?!\s+(?-i:[A-N])\b)|n't\b|wrong|incorrect|false\b|inaccurate|unlikely|impossible|invalid
      |irrelevant|implausible|eliminated|excluded|ruled\sout|absent|cannot|can't|doesn't|isn't
      |aren't|don't|didn't|wasn't|won't|(?:plausible|possible|tempting)\s*,?\s*but\b|no\s*\||✗|❌|✘|✖|×
      |[是也都并並则則]{{0,2}}(?:错|錯|不[^\s])|有误|falsch|nicht|faux
      |falso|falsa|не\b|değil|नहीं|ではな|ではあり|は誤|は間違|[가이은는]?\s*아[니닙닌]|[은는이가]?\s*틀)""",
    re.IGNORECASE | re.VERBOSE,
)
APPOSITION = re.compile(
    r"(?:,[^,.;:!?\n]{1,60})?,[ ]+(?=(?:is|are|was|were|would|can|could|cannot|does|do|did|has)\b)",
    re.IGNORECASE,
)
"""The text of an option between its letter and a verb: "(D), the dog, is not shown"."""
TEXT_THAT_DENIES = re.compile(r"[ \t]*(?:Not|None|No|Nothing|Nobody|Neither|Cannot|Can't|Never)\b")
"""The beginning of an option's text after "(D)". A denial of the letter is in lower case."""
AFFIRMED = re.compile(
    rf"""[ \t|]*(?:,[ ]which\b|option\b|choice\b|选项|選項|項|项|が|は|이|가)?{_QUOTED_TEXT}[ \t]*
    (?:(?:is|are|was|seems?|looks?|appears?|would\sbe|must\sbe|should\sbe|has\sto\sbe|being|ist|est|es
        |è|é|是|为)?
      (?:\s*(?:to\sbe|also|clearly|definitely|obviously|therefore|thus|probably|most|likely|the|my|a
        |only|single|more|much|indeed|final|closest|far|la|el|le|die|der|das|os|o)\b)*[ \t]*
      (?:correct|right|best|better|true|accurate|answer|plausible|convincing|likely|suitable|appropriate|match
        |one|choice|option|richtig|juste|correcte|corr?ett?[ao]|correct[ao]|верн\w*|правильн\w*)\b
      \s*(?:answer|option|choice|match|fit|one|description|guess)?
      (?=\s*(?:[.,;:!)|\n*_"'<]|$|{_WHY}|than\b|here\b|among\b|and\b|but\b|when\b
        |(?<=option)\sthat\b|(?<=answer)\sthat\b|(?<=choice)\sthat\b|(?<=one)\sthat\b))
    | (?:is|seems|would\sbe|must\sbe|has\sto\sbe)\s(?:\w+ly\s)?the\s(?:only|best|correct|right
        |closest|most\s\w+)\s(?:\w+\s)?(?:option|answer|choice|one|match|fit)\b
    | best\s(?:matches|fits|describes|captures|explains|summarizes|aligns|reflects|represents)\b
    | (?:describes|fits|matches|explains)\s[\w\s]{{1,30}}\b(?:best|correctly|accurately)\b
    | is\s(?:best\s|also\s|more\s)?(?:supported|confirmed|consistent)\b
    | [がは则則]?[是为為]?(?:更为|更|最为|最)?(?:正确|正し|正確|正解|对(?![^\W\d_])|对的|정답
        |合适|合適|合理|恰当|恰當|贴切|准确|準確|符合|佳(?:答案|选项)?)
    | (?:matches|fits|remains)\b | it\sis\b | for\ssure\b | yes\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
ALSO_BEFORE = re.compile(r"\balso\b\W*(?:\w+\W+){0,3}$|也(?:有?可能|可以)?是$", re.IGNORECASE)
ALSO = re.compile(
    r"[ \t]*(?:is|seems|could be|would be) (?:also\b|too\b|[^.\n]{1,20} as well\b)", re.IGNORECASE
)
"""Text around a letter that is one more answer: "(D) is also correct"."""
PICKED = re.compile(r"[ \t|]*(?:[✓✔✅☑]|を選(?!ぶこと)|[를을]\s*(?:선택|고르|택))")
"""Text after a letter that makes the letter chosen, independently of the text before it."""
RIGHT = re.compile(
    rf"""✓|✔|✅|☑|正(?:确|確)(?![なに])
    |(?:^|[(\[:;,.=–—-])\W*(?:correct|yes|true)\b(?=\W|$)
    |(?:[(\[:;,.=–—-]\W*|\b(?:is|are|was|seems|looks|be)\s(?:(?:the|most|\w+ly)\s)*)
      (?:correct|right|true)(?=[^\w\s-]|\s*$|\s(?:answer|option|choice|one|match|and)\b|\s{_WHY})""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words and marks that call an option right, but not "the right door"."""
WRONG = re.compile(
    r"✗|❌|✘|✖|×|错|錯|不|\b(?:incorrect|wrong|no|not|false|isn't|cannot|nicht|kein\w*|pas|non|nunca)\b",
    re.IGNORECASE,
)

_CONNECTOR = (
    r"(?:\s*\(?(?:\[/\]|[,/&+;]|->|[→<>]|\|\|?|或者?|还是|還是|和|与|與|及|または|か|と|또는|와|과)\s*(?:and\s|or\s)?"
    r"|\s+\(?(?:-|–|and/or|and|or|to|through|nor|und|oder|et|ou|y|o|u|e|и|или|dan|atau|ve|veya|och|eller)\s+)"
)
_QUALIFIED = (
    r"[\s*_(\[\"'`<]*(?:(?:(?:it|this|that)\s)?(?:could|might|may)\s(?:also\s)?be\s)?"
    r"(?i:(?:maybe|possibly|perhaps|options?|choice|even|also)\s+)*(?:选项|選項|選択肢)?[*_(\[\"'`]*"
)
_REMARK = r"(?:[ ]?\([^()\n]{1,20}\))?"
ANOTHER_BEFORE = re.compile(
    rf"(?<![{WORD_LETTER}])([A-Za-z])(?:选项|選項|项)?[*_)\]\"'`]{{0,3}}{_REMARK}{_CONNECTOR}{_QUALIFIED}$"
    rf"|(?<![{WORD_LETTER}'])([A-HJ-Z])[ ]$"
    r"|\(([A-Za-z])\)[^.,;:()\n]{1,40}\sor\s$"
)
ANOTHER_AFTER = re.compile(
    rf"(?:选项|選項|项)?[*_)\]\"'`]*(?:\.{{2,3}}|…)?{_REMARK}{_CONNECTOR}{_QUALIFIED}([A-Za-z])"
    r"(?=[*_)\]\"'`]*\s*(?:$|[.,;:!?)\n/&<|]|and\b|or\b|\(|are\b|both\b|[^\x00-\x7f]))"
    rf"|[ \t]+([B-HJ-Z])(?=[ \t]+[B-HJ-Z](?![{WORD_LETTER}])|[ \t.]*$)"
    r"|[^.,;:()\n]{1,40}\sor\s\(([A-Za-z])\)"
)
"""A second letter beside the first: "A or B", "A, B", "A B"."""

CORRECTION = re.compile(
    r"""(?<!\w)(?:^|(?<=[.!?…\n–—-])|(?<=[.!?…\n–—-]\s)|(?<=,\s)|(?<=\b(?:no|oh|so)\s)|(?<=\bbut\s))
    (?:(?P<withdrawn>wait\b(?=\s*(?:[,.!?…–—-]|$|(?:no|that|actually|it|i|let|the\sanswer)\b))
        |scratch\sthat|that's\s(?:wrong|not\sright|incorrect)|i\swas\swrong|correction\b)
      |actually\b|on\ssecond\sthought|oops\b|my\smistake|i\smeant?\b|or\srather\b
      |let\sme\s(?:re\w+|double|look\sagain|correct)|no,|sorry,\s|(?P<however>however\b))
    |(?P<withdrawn_unspaced>不对|等等|更正)""",
    re.IGNORECASE | re.VERBOSE,
)
"""The beginning of a correction. If the text after it has an answer, only that text counts.
`withdrawn` also cancels the text before the correction. After `however`, only a chosen letter
counts."""
CHOOSES_NONE = re.compile(
    r"""\b(?:so|thus|therefore|hence|consequently),?\snone\sof\s(?:the|these)\s(?:given\s|provided\s|listed\s)?
    (?:answer\s)?(?:options|choices|answers)\b
    |(?:\b(?:answer|option|choice)\b[^.:\n]{0,40}(?:\bis\b|:)|\n)\W*
    none\b(?:\sof\s(?:the\s)?\w+(?:\s\w+)?)?\W*$
    |\b(?:we|i|it|answer)\b[^.\n]{0,20}\b(?:cannot|can't|(?:unable|impossible)\sto)\s(?:be\s)?determined?\b[^.\n]*\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""The end of an answer that says that no option is right."""
_DECLARED_SET = re.compile(
    r"""(?:nswers?|答案)[^\w\n]{0,4}(?:is|are|[为是])?[^\w\n]{0,4}
    (?=[A-N]{2,7}(?![A-Za-z]))A?B?C?D?E?F?G?(?![A-Za-z])""",
    re.VERBOSE,
)


def declared_sets(text: str) -> list[int]:
    """The ends of the declared answers that are several letters: "The answer is BD"."""
    return [match.end() for match in _DECLARED_SET.finditer(text)]


QUESTION_NUMBER = re.compile(
    r"""(?P<named>(?:第|小[题題]|问题|問題?)[ ]?[\d一二三四五六七八九十]{1,3}
          (?!\w*(?:选|選|項|项|个|個|次|帧))
        |\([一二三四五六七八九十]\)
        |\b(?:question|part|blank|case|q)[ ]?\(?(?:\d{1,3}|[a-d])\b
        |\b(?:first|second|third|fourth|fifth)[ ](?:question|part|blank|frame|image|video)\b)
    |(?:^|\n)[\s*_#>]*\(?(?:\d{1,3}|[ivx]{1,4})[.)、:]|(?<=[.;)])\s*\(\d{1,3}\)""",
    re.IGNORECASE | re.VERBOSE,
)
"""The number of one of several questions, or, without a name, the number of a step."""
NEXT_QUESTION = re.compile(
    r"""\n[ \t#*>]*(?:(?:next\s)?question|q|user|human|instruction|problem|context
        |问题|問題|题目|題目|用户|질문)\s?\d*[ \t*]*:
    |\n[^\n]{5,400}\?[ \t*]*\n+[ \t*]*\(?A[.):]
    |\n[ \t#*>]*(?:user|human)[ \t]*\n""",
    re.IGNORECASE | re.VERBOSE,
)
"""The beginning of a question or a turn that a model adds after its answer."""
PROMPT = re.compile(
    rf"{NEXT_QUESTION.pattern} | (?-i:\b(?:USER|HUMAN):) | \[INST\] | <\|im_start\|>\s*user\b",
    re.IGNORECASE | re.VERBOSE,
)
ASSISTANT_TURN = re.compile(
    r"""(?:\n|<\|im_start\|>)[ \t#*>]*(?:assistant|response)[ \t*]*(?::|\n)
    | (?-i:\bASSISTANT:) | \[/INST\] | <\|assistant\|> | <start_of_turn>\s*model\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""The end of a prompt that a model repeats before its answer."""
ASSISTANT_MARKS = ("ssistant", "ASSISTANT", "esponse", "[/INST]", "<start_of_turn>")
"""Every such end has one of these marks, which are found faster than the pattern."""

ERROR_TEXT = _phrases("errors", before=r"[\W_]*+")
REFUSAL = _phrases("refuses")
