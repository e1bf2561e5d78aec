"""Families of text that tries to command a model, as data: code, cues, pattern.

A pattern is searched only near its cues. Every quantifier is bounded and every gap consists of
whole words, so a search takes time linear in the text, whatever its content. ``re`` compiles it for
the first text with its cues: all of them together take a fortieth of a node's start.
"""

import re

from msgspec import Struct

from engramlog.projections.text.lookalike_folding import folded

STEM_CHARS = 4


class WordFamily(Struct, frozen=True):
    """A family known by its words. The pattern sees lower-case words separated by single spaces,
    without punctuation. It can match only if one word begins with one of ``stems`` and one with one
    of ``also`` (four letters, or a whole shorter word)."""

    code: str
    stems: frozenset[str]
    also: frozenset[str]
    pattern: str


class LineFamily(Struct, frozen=True):
    """A family known by its marks. The pattern sees lower-case lines; it can match only if one of
    ``cues`` occurs."""

    code: str
    cues: tuple[str, ...]
    pattern: str


def _gap(words: int) -> str:
    return rf"(?:[^ ]{{1,20}} ){{0,{words}}}?"


_ORDERS = (
    r"(?:instructions?|prompts?|rules?|directions?|guidelines?|commands?|directives?"
    r"|constraints?|programming|safeguards?|guardrails?|restrictions?)"
)
_EARLIER = (
    r"(?:previous|prior|above|earlier|preceding|foregoing|former|system|existing|original"
    r"|initial|your|all|any|other)"
)
_SECRET = (
    r"(?:(?:system|initial|hidden|original|secret|developer|internal) (?:prompt|message"
    r"|instructions?|rules|guidelines|context)|(?:your|the above|previous|prior)"
    r" (?:system )?(?:prompt|instructions?|guidelines|directives))"
)
_REVEAL = (
    r"(?:reveal|print|show|repeat|output|display|tell me|leak|disclose|give me|write out|dump"
    r"|expose|recite|summari[sz]e|translate|send me|what (?:is|are|was|were))"
)
_ROLES = r"(?:system|assistant|developer|human)"
_BEING = (
    r"(?:an? |the |my |in |acting|operating|playing|going to (?:act|be|play)|dan\b|evil|free"
    r"|un[a-z]{4,15}|jailbroken|called|known as|no longer|required|instructed|allowed)"
)

_WORDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        "override_instructions",
        ("igno", "over", "disr", "bypa", "disc", "forg"),
        ("inst", "prom", "rule", "dire", "guid", "comm", "cons", "prog",
         "safe", "guar", "rest", "ever", "anyt", "all", "what"),
        rf"\b(?:(?:ignor|overrid)(?:e|es|ing)|(?:disregard|bypass|discard|forget)(?:ing|ting)?"
        rf"|overrul(?:e|ing)) (?:{_gap(4)}{_EARLIER} {_gap(3)}{_ORDERS}\b"
        r"|(?:everything|anything|all|whatever)"
        r" (?:(?:that|you|i|we|was|were|is|has|have|been|came|comes|said|written|stated|told)"
        r" ){0,5}(?:above|before this|prior to this|previously|beforehand|told|up to now))",
    ),
    (
        "override_translated",
        ("igno", "oubl", "olvi", "desc", "dime", "verg", "miss"),
        ("inst", "cons", "dire", "regl", "istr", "orde", "regr", "anwe", "befe", "rege", "vorg"),
        rf"\b(?:ignore[zr]?|oublie[zr]?) {_gap(3)}(?:instructions?|consignes?|directives?|regles)"
        rf" {_gap(2)}(?:precedentes?|anterieures?|ci dessus|initiales?)\b"
        rf"|\b(?:ignor[ae]r?|ignorad|olvidar?|olvide|desconsidere|ignori|dimentica)"
        rf" {_gap(3)}(?:instrucciones|instrucoes|istruzioni|ordenes|reglas|regras)"
        rf" {_gap(2)}(?:anteriores|previas|precedenti|acima)\b"
        rf"|\b(?:ignorier[a-z]{{0,3}}|vergiss|vergessen sie|missacht[a-z]{{0,3}})"
        rf" {_gap(3)}(?:vorherigen|bisherigen|vorigen|fruheren|obigen|vorangegangenen)"
        rf" {_gap(2)}(?:anweisungen|instruktionen|befehle|regeln|vorgaben)\b",
    ),
    (
        "persona_override",
        ("now", "long", "pret", "act", "role"),
        ("you", "your", "from", "pret", "as"),
        rf"\byou(?: a)?re now {_BEING}"
        r"|\bfrom now on (?:you (?:are|will|must|shall|should)\b|act\b|respond\b|answer\b)"
        r"|\byou (?:a)?re no longer (?:an? |bound|restricted|limited|required|chatgpt|claude)"
        r"|\bpretend (?:that )?you (?:a)?re (?:an? )?(?:ai|unrestricted|not|free|dan|evil|root)\b"
        r"|\b(?:act as|roleplay as) (?:if you (?:are|were|have)|(?:an? )?(?:unrestricted"
        r"|uncensored|unfiltered|evil|jailbroken|root|dan|linux terminal|developer mode)\b)",
    ),
    (
        "jailbreak",
        ("anyt", "deve", "jail", "rest", "filt", "limi", "guar", "cens", "safe", "cont", "ethi"),
        ("do", "mode", "jail", "with", "disa", "turn", "deac", "remo"),
        r"\bdo anything now\b|\bdeveloper mode (?:is )?(?:now )?(?:enabled|on|activated|output)\b"
        r"|\bjailbreak (?:mode|prompt|yourself|enabled)\b"
        r"|\b(?:respond|answer|reply|act|operate|speak|behave) (?:[^ ]{1,20} ){0,3}?without (?:any "
        r")?(?:[^ ]{1,20} )?(?:restrictions?|filters?|limitations?|guardrails?|censorship)\b"
        r"|\b(?:disable|turn off|deactivate|remove) (?:all |any |your |the ){0,2}(?:safety|content"
        r"|ethical) (?:filters?|guidelines|checks?|guardrails?|restrictions?|measures)\b",
    ),
    (
        "section_marker",
        ("begi", "end", "star"),
        ("prom", "mess", "inst", "cont", "docu"),
        r"\b(?:begin|end|start)(?: of)?(?: the)? (?:(?:system|developer|hidden|secret) (?:prompt"
        r"|message|instructions?)|(?:prompt|context|document) (?:begin|new|system)\b)",
    ),
    (
        "new_instructions",
        ("your", "thes", "foll", "new", "upda", "obey", "exec"),
        ("task", "inst", "goal", "obje", "miss", "purp", "role", "dire", "comm", "orde"),
        r"\byour (?:new|real|actual|only|true|updated) (?:task|instructions?|goal|objective"
        r"|mission|purpose|role|directive)s? (?:is|are)\b"
        r"|\b(?:these|following|new|updated) instructions (?:override|replace|supersede|take"
        r" precedence|have priority)"
        r"|\b(?:follow|obey|execute) (?:only )?(?:these|the following|my) (?:new )?(?:instructions"
        r"|commands|orders) (?:instead|exactly|only|now|and ignore)\b",
    ),
    (
        "prompt_exfiltration",
        ("prom", "mess", "inst", "rule", "guid", "cont", "dire", "abov", "befo"),
        ("reve", "prin", "show", "repe", "outp", "disp", "tell", "leak", "disc", "give",
         "writ", "dump", "expo", "reci", "summ", "tran", "send", "what"),
        rf"\b{_REVEAL} {_gap(4)}{_SECRET}\b"
        r"|\b(?:repeat|print|output|recite) (?:everything|the text|all|the words|all the words"
        r"|all text) (?:above|before)\b",
    ),
    (
        "concealment",
        ("user", "huma", "oper", "deve"),
        ("not", "dont", "neve", "with", "keep", "hide", "conc"),
        r"\b(?:do not|dont|never|must not|should not|without) (?:[^ ]{1,20} ){0,2}?(?:tell|telling"
        r"|inform|informing|mention|mentioning|reveal|revealing|alert|alerting|notify|notifying"
        r"|disclose|disclosing|warn|warning|asking) (?:[^ ]{1,20} ){0,4}?(?:the (?:user|human"
        r"|operator)|your (?:user|operator|developers?))\b"
        r"|\b(?:keep|hide|conceal) (?:[^ ]{1,20} ){0,4}?from the (?:user|human|operator)\b",
    ),
    (
        "credential_exfiltration",
        ("api", "pass", "cred", "secr", "toke", "priv", "conv", "chat", "memo", "syst"),
        ("send", "post", "uplo", "emai", "mail", "forw", "exfi", "tran", "leak", "subm"),
        r"\b(?:send|post|upload|e?mail|forward|exfiltrate|transmit|leak|submit)"
        r" (?:(?:all|the|your|any|user|users|me|their|my|of|full|entire|every|stored) ){0,4}"
        r"(?:api keys?|passwords?|credentials?|secrets?|(?:access |auth )?tokens?|private keys?"
        r"|conversation(?: history)?|chat history|memory|memories|system prompt)"
        r" (?:[^ ]{1,20} ){0,4}?to (?:https?|this|the following|my|me|attacker|evil|www)\b",
    ),
    (
        "memory_poisoning",
        ("conv", "resp", "sess", "answ", "repl", "inte"),
        ("in", "for", "into"),
        r"\bin (?:all|every|any|each) (?:future )?(?:conversations?|responses?|sessions?|answers?"
        r"|repl(?:y|ies)|interactions?) (?:(?:with|from|to|the|this|user|users|here|now|on) ){0,4}"
        r"(?:you )?(?:must|always|should|never|will|recommend|include|append|insist)\b"
        r"|\b(?:remember|store|save|memori[sz]e) (?:[^ ]{1,20} ){0,6}?(?:for|in|into) (?:all|every"
        r"|any) future (?:conversations?|responses?|sessions?|answers?|interactions?)\b",
    ),
    (
        "authority_claim",
        ("deve", "crea", "admi", "prog", "oper", "syst", "open", "anth", "goog", "root"),
        ("mess", "noti", "inst", "comm", "dire", "am", "over"),
        r"\b(?:message|notice|instructions?|command|directive) from (?:the |your )?(?:system"
        r"|developers?|openai|anthropic|google deepmind|creators?|system administrator)\b"
        r"|\bi am your (?:developer|creator|administrator|programmer|operator)\b"
        r"|\b(?:admin|administrator|system|root|developer) override\b",
    ),
    (
        "tool_call",
        ("tool", "func", "acti"),
        ("you", "now", "imme", "plea", "inpu"),
        r"\b(?:you (?:must|should|will|need to)|now|immediately|please immediately) (?:now |also |"
        r"immediately )?(?:call|invoke|run|use|execute) (?:the )?[^ ]{1,30} (?:tool|function)\b"
        r"|\baction [^ ]{1,30} action input\b",
    ),
)  # fmt: skip

_LINES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "override_translated",
        ("忽略", "无视", "無視", "忘记", "忘記", "忘れ", "무시", "игнорир", "забуд"),
        r"(?:忽略|无视|無視|忘记|忘記)[^\n。]{0,8}(?:之前|以上|先前|所有|上述|前面)[^\n。]{0,8}"
        r"(?:指令|指示|提示|说明|規則|规则|說明)"
        r"|(?:これまで|以前|上記|前)の?[^\n。]{0,8}(?:指示|命令|プロンプト)[^\n。]{0,6}(?:無視|忘れ)"
        r"|(?:이전|위의|앞의)[^\n]{0,20}(?:지시|명령|프롬프트)[^\n]{0,12}무시"
        r"|(?:игнорируй|игнорируйте|забудь|забудьте) (?:[^ \n]{1,20} ){0,2}?(?:предыдущие|прежние"
        r"|предшествующие|прошлые) (?:[^ \n]{1,20} ){0,2}?(?:инструкции|указания|команды|правила)",
    ),
    (
        "role_marker",
        ("system", "assistant", "developer", "human"),
        rf"(?:^|\n) ?[>*\-=\[(\"'`_ ]{{0,8}}{_ROLES}(?: (?:prompt|message|instructions?|override"
        r"|note))?[\])*_\"'` ]{0,4}:(?= |\n|$|\*)",
    ),
    (
        "role_markup",
        ("system", "assistant", "developer", "instruction", "admin", "role"),
        r"</?(?:system|assistant|developer|system[_-]?(?:prompt|message|instructions?)"
        r"|instructions?|admin|important_instructions)(?: [^<>\n]{0,80})?>"
        r"|[\"']role[\"'] ?: ?[\"'](?:system|assistant|developer|tool)[\"']",
    ),
    (
        "chat_template_token",
        ("<|", "[inst]", "[/inst]", "<<sys>>", "<</sys>>", "_of_turn>"),
        r"<\|[a-z0-9_▁.\-/]{1,40}\|>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>",
    ),
    (
        "section_marker",
        ("#",),
        r"(?:^|\n) ?#{1,6} ?(?:system|assistant|developer|instruction|response|input|human|user)"
        r"(?: (?:prompt|message))? ?:",
    ),
    (
        "tool_call",
        ("tool_call", "function_call", "tool_result", "function_result", "tool_code", "tool_use",
         "invoke name", "to=functions", "arguments"),
        r"</?(?:[a-z]{1,10}:)?(?:tool_calls?|function_calls?|tool_use|tool_code|tool_results?"
        r"|function_results?)(?: [^<>\n]{0,80})?>|<(?:[a-z]{1,10}:)?invoke name ?="
        r"|[\"'](?:tool_calls?|function_call)[\"'] ?:|```(?:tool_code|tool_call)"
        r"|\bto=functions\.|[\"']name[\"'] ?: ?[\"'][^\"'\n]{1,64}[\"'] ?, ?[\"']arguments[\"'] ?:",
    ),
    (
        "data_uri",
        ("data:",),
        r"\bdata:(?:text|image|application|audio|video|font)/[a-z0-9.+\-]{1,60}"
        r"(?:;[a-z0-9=\-]{1,40}){0,3},",
    ),
    (
        "markdown_exfiltration",
        ("![", "<img"),
        r"!\[[^\[\]\n]{0,200}\]\( ?<?https?://[^\s()?]{1,500}\?[^\s()]{0,500}"
        r"|<img [^<>\n]{0,200}src ?= ?[\"']?https?://[^\s\"'<>?]{1,500}\?",
    ),
    (
        "active_markup",
        ("<script", "<iframe", "javascript:", "<object", "<embed"),
        r"<(?:script|iframe|object|embed)[\s>/]|\bjavascript:[^\s]",
    ),
)  # fmt: skip

WORD_FAMILIES: tuple[WordFamily, ...] = tuple(
    WordFamily(code, frozenset(stems), frozenset(also), pattern)
    for code, stems, also, pattern in _WORDS
)
LINE_FAMILIES: tuple[LineFamily, ...] = tuple(
    LineFamily(code, tuple(map(folded, cues)), folded(pattern)) for code, cues, pattern in _LINES
)

TEMPLATE_TOKEN = re.compile(
    r"[<＜][|｜][A-Za-z0-9_▁.\-/]{1,40}[|｜][>＞]|\[/?INST\]|<</?SYS>>"
    r"|<(?:start|end)_of_turn>",
    re.IGNORECASE,
)
"""Chat templates mark turns with these tokens."""
