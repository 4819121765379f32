"""An option that is written with its letter is read as that letter, whatever its text contains."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.agreement import counts, labelled_responses, letter_read
from tests.support.paths import GOLDEN
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.option_texts import option_texts
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer
from videomme_pipeline.scoring.readers.reading import Reading

FORMS = {
    "letter and period": "{letter}. {text}",
    "brackets": "({letter}) {text}",
    "closing bracket": "{letter}) {text}",
    "colon": "{letter}: {text}",
    "space": "{letter} {text}",
    "bold": "**{letter}. {text}**",
    "bold letter": "**{letter}.** {text}",
    "answer tag": "<answer>{letter}. {text}</answer>",
    "correct answer is": "The correct answer is {letter}) {text}",
    "option": "Option {letter}: {text}",
    "answer is": "The answer is ({letter}) {text}",
    "answer": "Answer: ({letter}) {text}",
    "it is": "it is ({letter}) {text}",
    "after reasoning": "<think>Maybe A, or is it B?</think>{letter}. {text}",
    "after a sentence": "The man walks through the park. {letter}. {text}",
    "lower case": "{lower}. {low}",
}
ENDINGS = ("", ".", "\n", "</s>")
TEXTS = st.one_of(
    st.lists(st.sampled_from("abcdefgABCDEFG"), min_size=1, max_size=6, unique_by=str.lower).map(
        lambda letters: "".join(f"({letter})" for letter in letters)
    ),
    st.lists(st.sampled_from("ABCDEFGHIJKLMN"), min_size=1, max_size=3, unique=True).map(", ".join),
    st.integers(-50, 5_000).map(str),
    st.decimals(0, 99, places=1).map(lambda number: f"{number} seconds"),
    st.sampled_from(
        (
            *(
                "Not mentioned.",
                "Cannot be determined.",
                "None of the above.",
                "False",
                "No",
                "Yes",
            ),
            *(
                "It is not shown.",
                "Option A is wrong.",
                "All of the above",
                "Both A and B",
                "A or B",
            ),
            *(
                "I'm sorry, I cannot answer.",
                "Not enough information",
                "Error",
                "Unknown",
                "Wait, no.",
            ),
            *(
                "Actually, the answer is C.",
                "The answer is A",
                "Who is he?",
                "Is it B?",
                "If it rains",
            ),
            *("Because he was wrong.", "He must wait for the bus.", "Vitamin C", "Plan B", "A man"),
            *(
                "跑步",
                "不是",
                "无法判断",
                "答案是A",
                "以上都不是",
                "第一个选项",
                "他在游泳吗?",
                "红色和蓝色",
            ),
            *("a", "I", "E", "U.S.A.", "36°", "1:2", "C++", "Question: who?", "wrong", "correct"),
        )
    ),
    st.text(alphabet="abcdefgh ABCDI'.,-", min_size=1, max_size=30).filter(
        re.compile("[A-Za-z]{2}").search  # words, not only letters and marks
    ),
)


def distinct(text: str) -> object:
    """The words of an option. Options without words cannot be told apart from marks."""
    return option_texts([Letter.A], [text])[Letter.A].words


OPTIONS = st.lists(
    TEXTS.filter(lambda text: bool(distinct(text))), min_size=2, max_size=14, unique_by=distinct
)


def read(response: str, options: Sequence[str]) -> Reading:
    letters = tuple(Letter)[: len(options) or 4]
    return read_answer(ReaderName.CAREFUL, response, letters=letters, options=options)


def check_every_form(texts: list[str], ending: str, published: bool, index: int) -> None:
    """Check that one of `texts` is read as its own letter in all forms."""
    pairs = list(zip(Letter, texts, strict=False))
    options = [f"{letter}. {text}" if published else text for letter, text in pairs]
    letter, text = pairs[index % len(pairs)]
    for form in FORMS.values():
        response = ending.join(
            (form.format(letter=letter, text=text, lower=letter.lower(), low=text.lower()), "")
        )
        reading = read(response, options)
        assert (response, reading.letter) == (response, letter)
        assert reading.span is not None
        assert response[slice(*reading.span)].upper() == letter


ARGUMENTS = (OPTIONS, st.sampled_from(ENDINGS), st.booleans(), st.integers(0, 13))


@given(*ARGUMENTS)
@settings(max_examples=40)
def test_every_option_is_read_as_its_own_letter(
    texts: list[str], ending: str, published: bool, index: int
) -> None:
    check_every_form(texts, ending, published, index)


@pytest.mark.slow
@given(*ARGUMENTS)
@settings(max_examples=1_000)
def test_every_option_is_read_as_its_own_letter_in_many_examples(
    texts: list[str], ending: str, published: bool, index: int
) -> None:
    check_every_form(texts, ending, published, index)


FRUIT = ("A. Apples.", "B. Pears.", "C. Plums.", "D. Figs.")
NOTHING = st.sampled_from(
    (
        *("", " ", "\n\n", "...", "?", "N/A", "null", "[]", "{}", "<answer></answer>", "\\boxed{}"),
        *("I'm sorry, I cannot answer this question.", "As an AI, I cannot watch videos."),
        *("There is not enough information.", "I don't know.", "无法判断。", "Error code: 500"),
        *("A man walks his dog.", "I see a red car and a bus.", "The film is about vitamin C."),
        *("Let me look at the frames.", "<think>The answer is B", "Is it A?", "Not A.", "If A"),
        *("None of them.", "All of them.", "Team A wins against team B.", "He gets a grade of A."),
        *("Apples or pears?", "Is it plums?", "It is not figs.", "Apples, pears, plums and figs."),
    )
)
SEVERAL = st.builds(
    lambda form, letters: form.format(*letters),
    st.sampled_from(
        (
            *("{} or {}", "{}, {}", "{} and {}", "({}) or ({})", "Both {} and {}", "{}/{}"),
            *("The answer is {} or {}.", "Answer: {}, {}", "Either {} or {}.", "答案是{}或{}"),
            *("It could be {} or it could be {}.", "**{}** or **{}**", "Neither {} nor {}."),
        )
    ),
    st.permutations("ABCD"),
)


@given(st.one_of(NOTHING, SEVERAL), st.sampled_from(("{}", "{}\n", "**{}**", "<think>B</think>{}")))
@settings(max_examples=60)
def test_no_letter_is_read_where_there_is_none(text: str, form: str) -> None:
    assert read(form.format(text), FRUIT).letter is None


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("The most likely diagnosis is (D) a cold", ("Flu", "Asthma", "Nothing", "A cold"), "D"),
        ("The road sign is (C) Stop.", ("Yield", "Turn", "Stop", "Go"), "C"),
        ("The sign that matters here is (C).", ("Yield", "Turn", "Stop", "Go"), "C"),
        ("He eats. Answer: B\n\nQuestion: Who?\nThe answer is D.", FRUIT, "B"),
        ("B. Pears\n\nWho eats?\nA. He\nB. She\nC. Nobody\nThe answer is A.", FRUIT, "B"),
        ("Question: Who eats?\nOptions: A. He B. She\nAnswer: B", ("He", "She"), "B"),
        ("The answer is C. He must wait for the bus.", FRUIT, "C"),
        ("The answer is C. The man actually eats.", FRUIT, "C"),
        ("The answer is C. Actually, it is D.", FRUIT, "D"),
        ("The answer is C. Wait, it is D.", FRUIT, "D"),
        ("The answer is C. Wait, no.", FRUIT, None),
        ("The answer is B, because Solution A is acid and Solution C is a base.", FRUIT, "B"),
        ("The answer is B. The answer A would need a dog.", FRUIT, "B"),
        ("Solution B", FRUIT, None),
        ("Sentence B.", FRUIT, "B"),
        ("Caption A fits the video better. The man eats them.", FRUIT, "A"),
        ("**Caption B: Pears**", FRUIT, "B"),
        ("Sentence A is about a dog, while sentence B is about a cat.", FRUIT, None),
        ("Option A is about a dog, while option B is about a cat.", FRUIT, None),
        ("The screen shows caption A at first.", FRUIT, None),
        ("Since points A and B are 5 apart, the answer is C.", FRUIT, "C"),
        ("Points A and B lie on the circle.", FRUIT, None),
        ("<think>He eats.\nanswer\nD", FRUIT, "D"),
        ("<think>He eats.\nAssistant\nD", FRUIT, "D"),
        ("<think>He eats. The answer is D", FRUIT, None),
        ("综上，选项为D", FRUIT, "D"),
        ("因此A选项正确。B选项说他在跑步。", FRUIT, "A"),
        ("所以选项B是正确的。选项A，C，D都是错误的。", FRUIT, "B"),
        ("选项A“苹果”并不合适。选项B“梨”是最合适的，因为他在吃梨。", FRUIT, "B"),
        ("因此，选项C是最佳答案。", FRUIT, "C"),
        ("B选项说他在跑步。", FRUIT, None),
        ("选项A是错误的。", FRUIT, None),
        ("他先游泳。然后他跑步，看书。因此，他最后是在看书。", ("游泳", "跑步", "看书"), "C"),
        ("(D) Not shown in the video", FRUIT, "D"),
        ("It is not (D) Not shown in the video", FRUIT, None),
        ("The angle ADE is 36°.", ("30°", "32°", "36°", "40°"), "C"),
        ("The angle is not 36°.", ("30°", "32°", "36°", "40°"), None),
        ("In frame 3 a man waves.", ("1", "2", "3", "4"), None),
        ("There are three.", ("1", "2", "3", "4"), "C"),
        ("So x = 3 and \\boxed{15}", ("15 seconds", "20 seconds"), "A"),
        ("It is -5.", ("5", "-5"), "B"),
        ("Both A and B", ("He", "She", "Both A and B"), "C"),
        ("The answer is A and B.", ("He", "She", "A and B"), "C"),
        ("B. Pears or A. Apples", FRUIT, None),
        ("Is it B. Pears?", FRUIT, None),
        ("Not B. Pears", FRUIT, None),
        ("He eats pears, not plums.", FRUIT, "B"),
        ("The woman smiles and nods her head.", ("feeling sad", "nodding her head"), "B"),
        ("The man is pushing a heavy cart.", ("pulling cart", "pushing heavy cart"), "B"),
        ("The correct answer choice is pears.", FRUIT, "B"),
        ("The answer must be the pears.", FRUIT, "B"),
        ("Pears are sweet. They can be cooked. He may eat some fruit.", ("pears", "beans"), None),
        ("The first answer choice is apples. The second answer choice is pears. It", FRUIT, None),
        ("One week later it is 3/7/2016.", ("03/06/2016", "03/07/2016"), "B"),
        ("He is pushing cart.", ("pulling cart", "pushing cart"), "B"),
        ("He pushes a red cart.", ("pulling cart", "pushing cart"), "B"),
        ("He pushes the cart and then pulls it.", ("pulling cart", "pushing cart"), None),
        ("It has a vitamin.", ("Vitamin A", "Vitamin C"), None),
        ("The play is slowed down a lot.", ("fast", "slow"), "B"),
        ("No, he does not.", ("Yes", "No"), "B"),
        ("No one can see it.", ("Yes", "No"), None),
        (f"<think>{'He eats. ' * 500}</think>A and B", ("He", "She", "A and B"), "C"),
        ("He goes up.", ("up", "down"), "A"),
        ("He goes up the stairs.", ("up", "down"), None),
        ("Let us look at the options:\n\nA. Apples: The man eats", FRUIT, None),
        ("To answer this, consider (A) Apples. The man", FRUIT, None),
        ("(B) Pears. The man eats them, but no fruit as in (A).", FRUIT, "B"),
        ("B. Pears. C. Plums is wrong, since he eats none.", FRUIT, "B"),
        ("Not A. Apples, but B. Pears.", FRUIT, "B"),
        ("A. Apples is incorrect. B. Pears is correct.", FRUIT, "B"),
        ("Look at each option.\n1. **A. Apples.** The man", FRUIT, None),
        ("1. A. Apples. The man eats.", FRUIT, "A"),
        ("A: No, he waits.", ("Yes", "No"), "B"),
        ("A: pears.", FRUIT, "B"),
        ("A: pears and apples.", FRUIT, "A"),
        ("A: B.A</s>", ("B.A", "(a)", "(b)"), "A"),
        ("B: apples.", FRUIT, "B"),
        ("The camera moves vertically.", ("horizontal", "vertical"), "B"),
        ("A highly detailed tower.", ("high", "low"), None),
        ("The angle ADE is also equal to 36°.", ("30°", "32°", "36°", "40°"), "C"),
        ("He is on the left in A. Only (B) is bright.\nThe answer is \\boxed{None}.", (), None),
        ("(B) is likely, but dark.\n\n\\boxed{\\text{None of the above}}", (), None),
        ("B. Pears is correct.\nThe answer is none of the above.", FRUIT, None),
        ("(A) fits.\nThe answer is none of the above.", ("He", "None of the above"), "B"),
        ("None of the other options fits, so B.", FRUIT, "B"),
        ("A. The left door\nB. The right door\nC. The middle door", (), None),
        ("A. left\nB. right\nC. up\nD. down", (), None),
        ("A. This is wrong.\nB. This is the right answer.\nC. This is wrong.", (), "B"),
        ("A. Apples: no\nB. Pears: yes, he eats them\nC. Plums: no", (), "B"),
        ("The options are: A. a red car, B. a bus, C. a train.", (), None),
        ("The correct options are: B", (), "B"),
        ("The angle ADE is 36.", ("30 cm", "36 cm"), "B"),
        ("The angle ADE is 36.", ("36 cm", "36 m", "40 cm"), None),
        ("The angle ADE is 36.", ("30 cm", "unknown", "36 cm"), "C"),
        ("The angle is 36°.", ("36°.", "36 °.", "40°.", "12°."), None),
        ("We get 36°. So the angle is 36°.", ("30°", "the sum", "36°"), None),
        ("We get 36°. So the angle is 36°.", ("30°", "unknown", "36°"), "C"),
    ],
)
def test_words_of_the_answer_are_not_the_text_of_an_option(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


ROOTS = ("√3", "2√3", "3√3", "6")
ANGLES = ("30°", "60°", "90°", "100°")
TIMES = ("15 seconds", "30 seconds", "40 seconds", "60 seconds")
AREAS = ("11 cm²", "12 cm²", "13 cm²", "14 cm²")


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        (r"So the area is 6√3. \boxed{6\sqrt{3}}", ROOTS, None),
        (r"The perimeter is 6+6π. \boxed{6+6\pi}", ("6", "6+π", "π", "12"), None),
        (r"The angle is 180° - 30° - 30° = \boxed{120°}", ANGLES, None),
        (r"So he waits \boxed{45} seconds, which is 30 seconds longer.", TIMES, None),
        ("The answer is 45 seconds, which is 30 seconds longer.", TIMES, None),
        ("Answer: 120°. It is 30° more than 90°", ANGLES, None),
        (r"\boxed{T} is faster than Bob.", ("Tim", "Ann", "Trisha", "Bob"), None),
        (r"We get 30°. \boxed{60^\circ}", ANGLES, "B"),
        (r"\boxed{2\sqrt{3}}", ROOTS, "B"),
        (r"\boxed{\sqrt{3}}", ROOTS, "A"),
        (r"\boxed{30 \text{ seconds}}", TIMES, "B"),
        (r"\boxed{30}", TIMES, "B"),
        (r"\boxed{\frac{2}{3}}", ("1/3", "2/3"), "B"),
        (r"\boxed{9}", ("Platform 4", "Platform 9", "Track 5", "None"), "B"),
        (r"\boxed{5}", ("sqrt(5)", "Gate 15", "Gates 5 and 15", "None"), None),
        (r"\boxed{3}", ("Two", "Three", "Four", "Five"), "B"),
        ("The answer is 3.", ("Two", "Three", "Four", "Five"), "B"),
        (r"\boxed{4} times", ("Once", "Twice", "Three times", "Four times"), "D"),
        (r"\boxed{10}", ("Ten to twelve", "Five"), None),
        (r"\boxed{2}", ("Two cats", "Three cats", "Two dogs"), None),
        (r"\boxed{30 \text{ minutes}}", TIMES, None),
        (r"A B C=\boxed{13 \mathrm{~cm}^{2}}", AREAS, "C"),
        (r"Option B shows 12 cm². \boxed{13}", AREAS, "C"),
        ("The answer is (A). The answer choice (D), NA, is not applicable.", ("Yes", "NA"), "A"),
        ("The answer choice (D), NA, is not applicable.", ("Yes", "No", "Both", "NA"), None),
        ("Answer choice B, the dog, is incorrect because it sleeps.", ("The cat", "The dog"), None),
        ("What comes to mind is (D) Figs. However, the man is sitting.", FRUIT, None),
        ("What comes to mind is (D) Figs.", FRUIT, "D"),
        ("<answer>D</answer>\nuser\nWho is it?\nassistant\n<answer>C</answer>", FRUIT, "D"),
        ("The answer is B.\n\nuser\nWho?\nassistant\nThe answer is C.", FRUIT, "B"),
        ("<answer>D</answer>\n\nQuestion: Who?\n<answer>C</answer>", FRUIT, "D"),
        ("He eats.\nanswer>B</answer>", (), "B"),
        ("(A) yes.\n\nQuestion: Is there a dog? (A) yes (B) no", ("yes", "no"), "A"),
    ],
)
def test_a_final_value_is_compared_as_a_whole_and_a_rejected_option_is_no_answer(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        (r"The total area would be $A_\text{star} = 3$ cm, which no option has.", None),
        (r"So the area is $A_{1} = 3$.", None),
        ("It is $B_2$.", None),
        ("The area is $C^2$.", None),
        ("The answer is _B_.", "B"),
        ("_The answer is B_ because it is.", "B"),
        ("**__C__**", "C"),
    ],
)
def test_a_variable_with_a_subscript_or_a_power_is_no_option(
    response: str, letter: str | None
) -> None:
    assert read(response, FRUIT).letter == letter


def test_values_in_three_languages_are_read_without_a_false_letter() -> None:
    rows = labelled_responses(GOLDEN / "value_forms.jsonl")
    assert len(rows) == 300
    agreement = counts((letter_read(ReaderName.CAREFUL, row), row["intended"]) for row in rows)
    assert agreement == {"right": 300, "false": 0, "wrong": 0, "missed": 0}


def test_a_long_explanation_is_not_read_by_a_first_sentence_that_nothing_explains() -> None:
    rest = "His hands and his face show this clearly in every frame. " * 6
    options = ("talking", "shopping", "working out", "gardening")
    assert read(f"The man is busy talking. {rest}", options).letter is None
    assert read(f"The man is busy talking. {rest}So he is talking.", options).letter is Letter.A
    assert read(f"The man is busy. {rest}He is talking.", options).letter is Letter.A


SKETCHES = ("the left sketch", "the right sketch")
DETAILS = "It shows a bridge, two towers and a road that leads to the lake. " * 4


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("{left} is most similar. It shows a bridge.", "A"),
        ("{left} is most similar. {details}", "A"),
        ("{left} is most similar. {details}In contrast, {right} is more cloudy.", "A"),
        ("{left} is most similar. {details}{right} shows a hill.", "A"),
        ("{left} is most similar. {details}{right} is more similar.", None),
        ("{left} shows a bridge. {details}{right} shows a hill.", None),
        ("{left} is most similar. {details}Therefore, {right} fits.", "B"),
        ("{left} has a boat, {right} a hill. {details}Therefore, {right} fits.", "B"),
        ("{right} has a hill. {details}So {left} fits, not {right}.", "A"),
        ("{left} or {right}? {details}Thus, {right} fits.\n\nLet me know if you agree!", "B"),
        ("{left} or {right}? {details}Thus, {right} does not fit.", None),
        ("{left} or {right}? {details}Thus, {left} or {right} fits.", None),
        ("{left} or {right}? {details}Thus, {right} fits the", None),
        ("{left} or {right}? {details}{right} has a hill.", None),
    ],
)
def test_a_long_explanation_is_read_by_its_conclusion(response: str, letter: str | None) -> None:
    left, right = SKETCHES
    assert read(response.format(left=left, right=right, details=DETAILS), SKETCHES).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("Answer: 38%\nExplanation: It is less than 47%.", "A"),
        ("**Answer:** 2) 47%\n**Explanation:** It is more than 38%.", None),
        ("The correct option is 47%. The bar is between 38% and 52%.", "B"),
        ("Answer: 38%\nThe bar is higher.\nAnswer: 47%\nIt is not 38%.", "B"),
        ("Answer: Not shown\nExplanation: I cannot tell if it is 38% or 47%.", "C"),
        ("The answer is 38% or 47%.", None),
        ("The answer is 38%. Wait, the answer is 47% or 38%.", None),
        ("One option is 38%. Another option is 47%, as it is shown.", None),
    ],
)
def test_a_declared_option_is_read_before_an_explanation(response: str, letter: str | None) -> None:
    assert read(response, ("38%", "47%", "Not shown")).letter == letter


@pytest.mark.parametrize(
    "beginning",
    [
        "The given options are:\n\n",
        "The available choices are:\n",
        "If $m = 70°$, find $x$.\n\n",
    ],
)
def test_the_labels_of_repeated_options_are_no_answer(beginning: str) -> None:
    response = (
        f"{beginning}(A) 90\n(B) 100\n(C) 110\n(D) 120\n\nAnswer:\n\nThe value of $x$ is 100."
    )
    assert read(response, ["90", "100", "110", "120"]).letter is Letter.B


def test_the_variables_of_an_equation_are_no_options() -> None:
    response = "So E * M / (V * g) = 152135.\nE * 45 / 8535.3 = 152135.\nE = 152135 * 8535.3 / 45 ="
    assert read(response, [f"{number},000 psi" for number in range(20, 30)]).letter is None


PLACES = ("the barn", "the harbor", "the attic", "the bakery")
MAPS = ("Map A", "Map B")
TALLER = ("A is taller", "B is taller")
CHORES = ("feeding the ducks", "painting a fence", "folding paper", "washing dishes")
EGGS = ("12", "24", "36", "None of these")
AREAS_IN_CM = ("6", "12", "18", "24")
ORTE = ("im Garten", "in der Küche", "am Bahnhof", "im Zug")
LUGARES = ("en la cocina", "en el jardín", "en la estación", "en el tren")
DIDIAN = ("在厨房", "在花园", "在车站", "在商店")


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("She has flour. It is hot. The best place for it is the bakery, where", PLACES, None),
        ("She has flour. It is hot. The best place is the bakery, as it is dry.", PLACES, "D"),
        ("He coils a rope. A gull waits. This means that he is in the harbor.", PLACES, "B"),
        ("The bakery. She works there every day.", PLACES, "D"),
        ("The bakery. Then she walks home.", PLACES, "D"),
        ("She lives there, and **the harbor** is new. A gull waits.", PLACES, "B"),
        ("She has flour. The only warm room: the bakery.", PLACES, "D"),
        ("The barn, the mill, and the well are old.", PLACES, None),
        ("Where is she? A. The barn B. The bakery", PLACES, None),
        ("It has a post. The only place that makes sense is the harbor.", PLACES, "B"),
        ("A gull waits. The best place is the barn or the harbor.", PLACES, None),
        ("He rests. A gull waits. A good example is the harbor.", PLACES, None),
        ("He left the barn. He rests. At the end of the road he sees the harbor.", PLACES, None),
        ("First she is in the barn. At the end of the game, she is in the attic.", PLACES, "C"),
        ("A box holds 12 eggs.\n\nTherefore, there are 3 x 12 = 36 eggs to sell.", EGGS, "C"),
        ("A box holds 12 eggs. He has 3 boxes. Thus, it is 36 or 24.", EGGS, None),
        ("A box holds 12 eggs.\n\nTherefore, there are 12 + 3x eggs.", EGGS, None),
        ("The side is 2. So the area is 6√3.", AREAS_IN_CM, None),
        ("The side is 2. So the area is 6 times 4.", AREAS_IN_CM, None),
        ("A lap has 900 m. So it is 1500 m.", ("1200 m", "1,500 m", "900 m"), "B"),
        ("Today is 3/7/2016. So yesterday was 3/6/2016.", ("03/06/2016", "03/07/2016"), "A"),
        ("他拿着水壶。地上有花。因此，他在花园。", DIDIAN, "B"),
        ("Es ist warm. Überall wachsen Blumen. Daher ist sie im Garten.", ORTE, "A"),
        ("Ella corta pan. Hay un horno. Por lo tanto, está en la cocina.", LUGARES, "A"),
    ],
)
def test_an_explanation_is_read_by_the_conclusion_at_its_end(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("He is feeding the ducks. This is evident from the bread. He is not folding paper or "
         "washing dishes.", CHORES, "A"),
        ("He is feeding the ducks. This conclusion is based on the bread. He smiles.", CHORES, "A"),
        ("He is feeding the ducks.\n\nExplanation:\n- He smiles.\n\nThis is a", CHORES, "A"),
        ("He is feeding the ducks. He is then folding paper. He smiles.", CHORES, None),
        ("He is feeding the ducks or folding paper. This is clear from it. He smiles.", CHORES,
         None),
        ("He is not feeding the ducks. This is evident from his hands. He smiles.", CHORES, None),
        ("他在花园。这是因为地上有花。他不在厨房，也不在车站。", DIDIAN, "B"),
        ("他不在花园。这是因为地上没有花。他很高兴。", DIDIAN, None),
        ("他先在厨房。然后他在花园。他很高兴。", DIDIAN, None),
        ("Sie ist im Garten. Das erkennt man an den Blumen. In der Küche wäre es warm.", ORTE, "A"),
        ("Sie ist nicht im Garten. Das erkennt man daran. Es ist warm.", ORTE, None),
        ("Está en la cocina. Esto se debe al horno. En el jardín hay flores.", LUGARES, "A"),
        ("No está en la cocina. Esto se ve por las flores. Es grande.", LUGARES, None),
    ],
)  # fmt: skip
def test_an_explanation_is_read_by_its_first_sentence_if_the_second_gives_the_reason(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("A boy kneels. He has bread. He is calm and busy feeding the ducks.", CHORES, "A"),
        ("A boy kneels. He has bread. He might be feeding the ducks.", CHORES, "A"),
        ("A boy kneels. He has bread. Then he is feeding the ducks.", CHORES, None),
        ("A boy kneels. He has bread. He is feeding the", CHORES, None),
        ("A boy kneels. I cannot see his hands. He is feeding the ducks.", CHORES, None),
        ("A boy kneels. Feeding the ducks is fun. He is folding paper.", CHORES, None),
        ("She reads. She eats. Pears of this kind are rare.", FRUIT, None),
        ("The shop opened on 5 May. A week earlier was 28 April.", ("5 May", "28 April"), "B"),
        ("The shop opened on 5 May. It was not 28 April.", ("5 May", "28 April"), "A"),
        ("Boys run. The sink is wet. One is washing dishes (D). Others sing.", CHORES, "D"),
        ("Boys run. One is washing dishes (A). Others sing.", CHORES, None),
        ("You need (A) bread, a (B) brush, or folding paper.", CHORES, None),
        ("有很多人。火车来了。他在车站。", DIDIAN, "C"),
        ("有很多人。火车来了。他不在车站。", DIDIAN, None),
        ("有很多人。火车来了。他可能在车站。", DIDIAN, "C"),
        ("Es ist laut. Ein Zug hält. Sie steht am Bahnhof.", ORTE, "C"),
        ("Es ist laut. Ein Zug hält. Vielleicht steht sie am Bahnhof.", ORTE, "C"),
    ],
)
def test_an_explanation_is_read_by_its_last_sentence_if_no_other_option_is_named(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("Pears.\n\nShe bites. Apples and figs are on the table too.", "B"),
        ("She looks at apples and figs.\n\nPears!", "B"),
        ("Apples\n\nPears\n\nPlums", None),
        ("Apples\n\nShe eats.\n\nPears", None),
        ("She eats.\n\nPears\n\nShe sings of apples.", None),
    ],
)
def test_an_option_that_is_the_first_or_last_paragraph_is_the_answer(
    response: str, letter: str | None
) -> None:
    assert read(response, FRUIT).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("He fed something. He feeds the ducks.", "A"),
        ("A man paints the fence.", "B"),
        ("A man paints the fence and washes dishes.", None),
        ("A man does not paint the fence.", None),
        ("A man paints his fence.", "B"),
        ("A man paints the red fence.", "B"),
        ("A man paints fences for a living.", "B"),
    ],
)
def test_an_option_of_several_words_is_read_in_another_form(
    response: str, letter: str | None
) -> None:
    assert read(response, CHORES).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("It must be (A) or (C). So (C) is not a good answer.", None),
        ("We can drop (A), (B) and (C). That leaves us with (D), which is correct.", "D"),
        ("A, which is wrong, has none. So C.", "C"),
        ("The answer could be A, apples. The answer could also be C, plums.", None),
        ("Let D = ST\nD = XY", None),
        ("C = plums", "C"),
    ],
)
def test_one_of_several_letters_is_the_answer_only_if_the_others_are_not(
    response: str, letter: str | None
) -> None:
    assert read(response, FRUIT).letter == letter


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("The square $D$.", (), "D"),
        ("Vitamin C", (), None),
        ("Triangle A and B", (), None),
        ("Triangle B is larger than triangle A.", (), None),
        ("Triangle B", ("Triangle B", "Triangle A"), "A"),
    ],
)
def test_a_letter_after_a_noun_is_no_answer_by_itself(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


EGG_COUNTS = ("12 eggs", "15 eggs", "18 eggs", "24 eggs")


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        (r"She needs three boxes, so it is C. \boxed{17}", EGG_COUNTS, None),
        (r"She needs three boxes, so it is C. \boxed{17}", (), None),
        (r"Let $c$ be the boxes. Then $c$ is \boxed{17}.", (), None),
        (r"The answer is C. \boxed{15}", EGG_COUNTS, "B"),
        (r"We get \boxed{17}. The answer is (C).", EGG_COUNTS, "C"),
        (r"We get \boxed{17}, near option C (18).", EGG_COUNTS, None),
        ("So it is C. <answer>17</answer>", EGG_COUNTS, None),
        (r"So it is C. \boxed{\text{the third box}}", EGG_COUNTS, "C"),
        ("The answer is pears and figs.", FRUIT, None),
        ("The answer is 18 eggs, and it is clear.", EGG_COUNTS, "C"),
    ],
)
def test_a_marked_value_replaces_the_letters_before_it(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


ROOTS = (r"2+\sqrt{5}", r"3+\sqrt{5}", r"\sqrt{5}", "5")
RELATIONS = ("P=Q=R", "P>Q>R", "R>P>Q", "Q>P>R")
POINTS = ("x=0, y=0", "x=0, y=1", "x=1, y=0", "x=1, y=1")


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        (r"\boxed{2+\sqrt{5}}", ROOTS, "A"),
        (r"\boxed{2-\sqrt{5}}", ROOTS, None),
        (r"\boxed{2\pm\sqrt{5}}", ROOTS, None),
        (r"\boxed{-\sqrt{5}}", ROOTS, None),
        (r"The answer is $2-\sqrt{5}$.", ROOTS, None),
        (r"So $x = 4 - \sqrt{5}$.", ROOTS, None),
        (r"\boxed{P > Q > R}", RELATIONS, "B"),
        (r"\boxed{P < Q < R}", RELATIONS, None),
        ("The answer is P < Q < R.", RELATIONS, None),
        (r"\boxed{x<3}", ("x>3", "x=3", "x≥3", "x≤4"), None),
        (r"\boxed{A, D}", ("A", "B", "C", "D"), None),
        (r"\boxed{\text{(D)}\ x=1, y=0}", POINTS, "D"),
        (r"\boxed{(D) x=1, y=0}", POINTS, "D"),
        (r"the answer is (C) \boxed{4}", ("picture one", "picture two", "picture three"), None),
        (r"the answer is (B) \boxed{4}", ("3", "4", "5"), "B"),
        ("A. 36°", ("36°", "40°"), "A"),
        ("Option A: 36°.", ("36°", "(a)"), "A"),
    ],
)
def test_a_value_has_its_signs_and_relations(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("A shows a cat, so A is right. D shows it too, so D is right.\nAnswer: AD", None),
        ("C项正确。D项正确。\n【答案】CD", None),
        ("【答案】AC\nA项正确，C项正确。", None),
        ("The answer is BD. On second thought, the answer is B.", "B"),
        ("The answer is NASA, so C.", "C"),
    ],
)
def test_several_letters_in_one_word_are_no_single_answer(
    response: str, letter: str | None
) -> None:
    assert read(response, FRUIT).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        (
            "It rains. A boat sinks. So option A is true. The sun sets. So option C is true. The",
            None,
        ),
        ("It rains. A boat sinks. So option A is true. The sun sets. The moon rises. The", "A"),
        ("It rains. A boat sinks. So option A is true. The answer is C. Then the", "C"),
        ("It rains. A boat sinks. So option A is true. So option C is true.", "C"),
    ],
)
def test_the_letters_of_an_answer_that_was_cut_off_must_agree(
    response: str, letter: str | None
) -> None:
    assert read(response, FRUIT).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("The answer is B. However, at the end of the video it should be C.", "C"),
        ("The answer is B. However, option C is tempting.", "B"),
        ("The answer is B. However, C is correct as well.", "B"),
        ("The answer is B. However, the last frame shows (C) plums.", "B"),
        ("C is tempting. However, she eats pears. The answer is B.", "B"),
        ("If she eats, then the answer is (A). Otherwise, the answer is (C). We cannot determine "
         "the answer.", None),
        ("Maybe it is A. We cannot determine it by sound. The last frame has plums, so C.", "C"),
        ("She eats plums (C), not the figs (D).", "C"),
        ("Between A and C, C seems more likely.", "C"),
        ("A and C are plausible. However, C is more consistent with the last frame.", "C"),
        ("Die Antwort ist nicht A, sondern C.", "C"),
        ("La réponse n'est pas A mais C.", "C"),
        ("La respuesta no es A, sino C.", "C"),
        ("答案不是A，而是C。", "C"),
    ],
)  # fmt: skip
def test_an_answer_that_is_given_up_or_contrasted_is_not_the_answer(
    response: str, letter: str | None
) -> None:
    assert read(response, FRUIT).letter == letter


@pytest.mark.parametrize("question", ["问题", "题目", "用户", "질문", "Question 2"])
def test_a_question_that_the_model_adds_in_another_language_ends_the_answer(question: str) -> None:
    assert read(f"B\n\n{question}：谁在吃？\n答案：D", FRUIT).letter is Letter.B


def test_a_reason_after_an_option_does_not_deny_it() -> None:
    assert read("He is folding paper, as the ducks are not there.", CHORES).letter is Letter.C


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("The first thing that you would notice in the video is:\n\nB. pears", FRUIT, "B"),
        ("The likely fruit would be:\n\nB. pears\n\nLess likely:\nC. plums: no.", FRUIT, "B"),
        ("What I see is:\n\n**B. She eats**\n\n* **A:** no sign.\n* **C:** no sign.", (), "B"),
        ("What I see in the last part of it is:\nA. apples\nB. pears", FRUIT, None),
        ("Given all of the frames, the correct answer is:\n\nA. x y B = z", (), "A"),
        ("The correct answer is B:\n\nA = the tree\nB = the house", (), "B"),
    ],
)
def test_a_line_that_ends_with_is_and_a_colon_announces_an_option(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("There are C(7,3) = 35 ways, so the answer is 35.", None),
        ("f(-2) = g(4), so d(9) is the distance.", None),
        ("So option B is wrong. So option C is wrong. So option D is", None),
        ("The answer is B, so option D is", "B"),
        (
            "It is B. But she eats no figs. Therefore, none of the given options is right here.",
            None,
        ),
        ("It is B. Therefore, none of the other options is right.", "B"),
        ("D\n------\nContext:\nFive people A, B, C and D sit. C sits next to D. B", "D"),
    ],
)
def test_notations_and_cut_off_statements_name_no_option(response: str, letter: str | None) -> None:
    assert read(response, ()).letter == letter


def test_a_letter_with_a_subscript_is_no_letter() -> None:
    response = "Therefore (R_in / R_out) should be about 24 eggs (Option D) for the sail."
    assert read(response, EGG_COUNTS).letter is Letter.D


EXAMPLES = "question: What is 2 + 3? A) 4 B) 6 C) 5\nanswer: C\n\nquestion: Who sings?\nanswer:"


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        (f"USER: Write one letter.\n{EXAMPLES} ASSISTANT: A", "A"),
        (f"<|im_start|>user\nWrite one letter.\n{EXAMPLES}\n<|im_start|> assistant\nA", "A"),
        (f"[INST] Write one letter.\n{EXAMPLES} [/INST] (A) The girl", "A"),
        (f"system\nYou help.\nuser\n{EXAMPLES}\nassistant\nIt is hard to say.", None),
        (f"The girl sings, so B.\nUSER: {EXAMPLES} ASSISTANT: A", "B"),
        (f"B\n{EXAMPLES} [/INST] A", "B"),
    ],
)
def test_a_prompt_that_is_repeated_before_the_answer_is_not_read(
    response: str, letter: str | None
) -> None:
    assert read(response, ()).letter == letter


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("Answer: Bb", ["BB", "Bb", "bb"], "B"),
        ("The genotype is such that the answer is bb.", ["BB", "Bb", "bb"], "C"),
        ("Answer: RED", ["Red", "Blue"], "A"),
        ("The answer is about 2 (Option B).", ["2", "3", "4"], "B"),
        ("The car is about 3 m long (option A). The others are longer.", (), "A"),
        ("正确答案是(C) 45%。", (), "C"),
        ("答案是(B) 3,5,8。", (), "B"),
        ("答案是(C) $x_{d}$。", (), "C"),
        ("D 4%", (), "D"),
        ("B The boy opens the door", (), "B"),
        ("B boats are on the river", (), None),
        ("写真(a)と図(b)がないため､正確な診断はできません｡", (), None),
        ("選択肢は(a)魚 (b)鳥 (c)猫です｡画像がないと正確に答えられません｡", (), None),
        ("A. 狗 B. 猫（正确） C. 鸟 D. 鱼", (), "B"),
        ("（1）【答案】 B <eoa>\n（2）【答案】 C <eoa>", (), None),
        ("1. B\n2. C\n3. C", (), None),
        ("1. B", (), "B"),
        ("(A) The boy sings\n(C) The girl sings\n(D) Nobody sings", (), None),
        ("The lengths of \nP and \nA and the angle are known, and \nA and \nB are", (), None),
    ],
)
def test_values_beside_letters_and_lists_with_gaps(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        (
            "B is taller. The child with the cap reaches the shelf.",
            ("A is taller", "B is taller"),
            "B",
        ),
        (
            "A is taller. The child with the cap reaches the shelf.",
            ("A is taller", "B is taller"),
            "A",
        ),
        ("The mark is at Gate 2. You can tell by the sign.", ("Gate 1", "Gate 2", "Gate 3"), "B"),
        ("A and B", ("A only", "B only", "A and B"), "C"),
        ("A cat is here. It sleeps.", ("A dog is here", "A cat is here"), "B"),
        ("Dot B is taller. It is near the gate.", TALLER, "B"),
        ("In the photo, dot B is taller. It is near the gate.", TALLER, "B"),
        ("It seems that dot A is taller. Dot B is near the gate.", TALLER, "A"),
        ("Based on the plan, the entrance is Gate 2. A sign is there.", ("Gate 1", "Gate 2"), "B"),
        ("Map A is clearly the better match. Its roads are wide.", MAPS, "A"),
        ("Map B is most similar to the sketch. Map A shows a hill.", MAPS, "B"),
        ("Based on the table, 12%", ("4%", "12%", "20%"), "B"),
    ],
)
def test_an_option_that_is_a_clause_or_is_explained_is_read_without_its_letter(
    response: str, options: Sequence[str], letter: str
) -> None:
    assert read(response, options).letter == letter


BALLS = ("A red one", "A green one", "A yellow one")
TROUBLE = ("He has no fuel.", "He lost his keys.", "It breaks.")
COUNTS = ("One", "Two", "Five")
AIMS = ("To rest", "To jump higher", "To stop")


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("A red ball.", BALLS, "A"),
        ("The clown gives a yellow ball to the child.", BALLS, "C"),
        ("A red ball and a green ball.", BALLS, None),
        ("A car stops. He walks away. Therefore, the man has no fuel.", TROUBLE, "A"),
        ("The trouble is that the driver lost his keys. A car stops, and he walks.", TROUBLE, "B"),
        ("The band has five musicians in it.", COUNTS, "C"),
        ("The boy uses a net.", ("Using a net", "Using a rod"), "A"),
        ("She carries home five pears. She walks, which takes an hour.", COUNTS, "C"),
        ("It is late. The girl who sings is called Anna, who is tired.", ("Anna", "Maria"), "A"),
        ("The coach tells them to rest. She advises jumping higher, and they smile.", AIMS, None),
        ("The coach wants to rest.\nQuestion: What does she want?\nA. To stop", AIMS, "A"),
        ("The talk is about a fire.\nQuestion: What is it about?\nA. A race\nB. A fire",
         ("A fire", "A race"), "A"),
        ("A: The cat hides in the barn.", PLACES, "A"),
        ("A: The cat hides in the harbor.", PLACES, "B"),
        ("(A) green", BALLS, "A"),
        ("She is in the barn. I hope that the harbor helps.", PLACES, "A"),
        ("She is in the barn, it seems. She rests. I hope it helps.", PLACES, "A"),
    ],
)  # fmt: skip
def test_the_only_option_that_a_response_names_is_the_answer(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter


FRUITS = ("Apples.", "Bananas.", "Oranges.", "Grapes.")
PURPOSES = (
    *("To make people laugh.", "To teach a recipe."),
    *("To sell a product.", "To document a journey."),
)
PLACES = ("In the kitchen", "In the garden", "On the roof", "In the garage")
ORDERS = ("He opens the door, then sits down", "He sits down, then opens the door", "He calls")
PERSONS = ("The man in the red shirt", "The man in the blue shirt", "The woman with glasses")
TRICKS = ("By stealing it", "By flattering the crow", "By buying it")
REASONS = ("Because the road is closed", "Because she forgot her keys", "Because it starts to rain")
HUES = ("Red", "Blue", "Green")
KITTEN = ("It looks for the other cat.", "It is hungry.", "It hears a noise.")


@pytest.mark.parametrize(
    ("response", "options", "letter"),
    [
        ("In the video, the man picks up a banana from the table and peels it.", FRUITS, "B"),
        ("Based on the video, the fruit that the man eats is a banana.", FRUITS, "B"),
        ("<think>A banana, so B.</think>\n\nThe man eats a banana.", FRUITS, "B"),
        ("It is not apples, it is bananas.", FRUITS, "B"),
        ("Neither apples nor oranges. Bananas.", FRUITS, "B"),
        ("Fruit: banana", FRUITS, "B"),
        ("Pears", ("a. Apples", "b. Pears"), "B"),
        ("There are apples, but the video only shows how they are washed.", FRUITS, None),
        ("The purpose of the video is to teach viewers a recipe.", PURPOSES, "B"),
        ("The video mainly documents a journey through Iceland.", PURPOSES, "D"),
        ("It does not teach a recipe. It is a commercial, meant to sell a product.", PURPOSES, "C"),
        ("The garden", PLACES, "B"),
        ("Roof.", PLACES, "C"),
        ("The man opens the garden gate and looks around.", PLACES, None),
        ("The guests sit in the garden. A dog barks. It gets dark. The rain stops.", PLACES, None),
        ("First in the kitchen, then in the garden.", PLACES, None),
        ("The man opens the door and then sits down.", ORDERS, "A"),
        ("He sits down and calls.", ORDERS, None),
        ("It is the woman wearing glasses.", PERSONS, "C"),
        ("The man in the blue shirt wins, while the man in red is second.", PERSONS, "B"),
        ("The man in the red shirt loses to the man in the blue shirt.", PERSONS, None),
        ("The fox flatters the crow so that it sings.", TRICKS, "B"),
        ("He steals it from the crow.", TRICKS, "A"),
        ("The fox asks the crow to sing; the cheese falls.", TRICKS, None),
        ("The woman returns as it starts to rain.", REASONS, "C"),
        ("It starts raining.", REASONS, "C"),
        ("The reason she returns is that she forgot her keys, as seen in frame 3.", REASONS, "B"),
        ("It rains, so she goes back.", REASONS, None),
        ("The road is not closed.", REASONS, None),
        ("The kitten looks at the mirror because it looks for the other cat.", KITTEN, "A"),
        ("It does not look for the other cat.", KITTEN, None),
        ("More than 3.", ("3", "4", "5"), None),
        ("Frame 3", ("3", "4", "5"), None),
        ("The answer is: apples, bananas.", FRUITS, None),
        ("(B) Bananas.\n\nThe answer is incorrect.", FRUITS, None),
        ("Hawaii has lava.\n\nThe caldera is in Greece. Therefore, the", ("Hawaii", "Greece"), "B"),
        ("8:00 am", ("6 am", "8 am", "8 pm"), "B"),
        ("Hiding in a shell is NOT shown in the video.", ("Hiding in a shell", "A jar"), "A"),
        ("Hiding in a shell is not shown in the video.", ("Hiding in a shell", "A jar"), None),
        ("The boat is red. It sails. The car is the newest. The sky is blue.", HUES, None),
        ("The oldest boat in it is red. It sails. The sky is blue. A dog barks.", HUES, "A"),
        ("It most likely is red. It sails. It is not blue. It has no flag.", HUES, "A"),
        ("Red is the largest. It sails. Blue is the largest. It has no flag.", HUES, None),
        ("The boat is red.\nTo elaborate further:\n1. It sails.\n2. The sky is blue.", HUES, "A"),
        ("It is red because it burns. A blue boat and a green one sink.", HUES, "A"),
        ("It is red because it burns. A blue boat and a green one", HUES, None),
        ("Let's look at the boats.\n\n1. The boat is red.\n2.", HUES, None),
        ("From frame 1, we know that the boat is red. It sails. Since the", HUES, None),
    ],
)
def test_an_option_is_read_in_the_words_of_an_ordinary_sentence(
    response: str, options: Sequence[str], letter: str | None
) -> None:
    assert read(response, options).letter == letter
