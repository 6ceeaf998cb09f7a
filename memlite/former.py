"""Whether a question asks for what no longer is, in the ten languages of dates.toml."""

from __future__ import annotations

import re

from memlite.date_words import languages_of
from memlite.words import STOP_WORDS

# Of each language what asks for a state that has passed, and what only looks so, both as whole words in any case.
# "Before" asks for it at the end, and where what ended the state follows: "before she moved", not "before we go".
_END = r"(?=\W*$)"
_TIME = r"(?:day|night|evening|morning|afternoon|week|weekend|month|year|summer|winter|spring|autumn|time|\w+day)s?"
_NAMED_TIME = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|christmas|easter|halloween|thanksgiving|new)\w*"
_THING = (
    r"(?:address|job|phone|number|name|flat|apartment|home|place|school|boss|office|employer|company|city|town|email|"
    r"password|doctor|teacher|landlord|plan|team|car|role|title)"
)
_LANGUAGES: dict[str, tuple[str, str]] = {
    "en": (
        rf"used to|did(?:n['’]t)? (?:[\w'’-]+ ){{1,4}}use to|before(?: that| then| this| now)?{_END}|"
        rf"(?:live|work|study|stay|teach|use|own|drive) (?:[\w'’-]+ )?before (?!{_TIME}|{_NAMED_TIME})(?-i:[A-Z])\w+"
        rf"{_END}|"
        r"before (?:[\w'’-]+ ){1,3}(?:moved|changed|switched|left|quit|married|divorced|retired|sold|became|started|"
        r"joined|graduated|got married|broke up)|before (?:moving|changing|switching|leaving|quitting|marrying|"
        r"getting married|retiring|starting|joining|becoming)|before (?:the|my|your|her|his|their|our) (?:move|change|"
        r"wedding|marriage|divorce|retirement|promotion)|previous(?:ly)?|former(?:ly)?|in the past|back then|"
        rf"originally|initially|until recently|no longer|(?:not|never|\w+n['’]t) (?:[\w'’-]+ ){{1,6}}any ?more{_END}|"
        rf"(?:old|prior|earlier) {_THING}s?|(?:did|has|had|have|was|were) (?:[\w'’-]+ ){{1,3}}once (?!a |an |per |"
        r"every |each |more|again|in |upon |the |we |she |he |they |you |i |it )\w+|once (?:lived|worked|had|was|were|"
        r"owned|played|studied)",
        r"(?:am|is|are|was|were|be|been|being|gets?|got|getting)(?: (?:the|an?|this|that|these|those|my|your|her|his|"
        r"our|their|\w+['’]s) \w+(?: (?!he |she |they |we |you |i |it )(?-i:[a-z])+)?| \w+)? used to|"
        rf"(?:i['’]m|\w+['’](?:s|re)) used to|{_TIME} before|previous {_TIME}",
    ),
    "de": (
        r"fr(?:ü|ue)her(?:e[nmrs]?)?|damals|ehemals|ehemalig\w*|einst(?:mals)?|vormals|vorher|vorherig\w*|zuvor|"
        r"nicht mehr|kein\w* (?:\w+ ){0,3}mehr|in der vergangenheit|ursprünglich\w*|alte[nmrs]? (?:adresse|anschrift|"
        r"wohnung|job|stelle|arbeit\w*|telefonnummer|nummer|handy\w*|haus|zuhause|schule|chef\w*|büro|firma|auto|name|passwort|arzt)|"
        r"bevor (?:\w+ ){1,5}(?:umzog|umgezogen|zog|gezogen|wechselte|gewechselt|heiratete|geheiratet|kündigte|"
        r"gekündigt|ging)|vor (?:dem|der|ihrem|ihrer|seinem|seiner|meinem|meiner) (?:umzug|wechsel|hochzeit|heirat|"
        r"scheidung|kündigung|rente)",
        r"(?:je|immer|noch|viel|zu|etwas|stunden?|minuten?|tage?|wochen?|jahre?|monate?) (?:früher|vorher|zuvor)|"
        r"(?:tag|abend|woche|nacht|jahr|monat|morgen) (?:zuvor|vorher)|früher (?:oder später|als|aufstehen|kommen|"
        r"gehen|los)|nicht mehr als|vorherigen? (?:tag|abend|woche|nacht|jahr|monat)\w*",
    ),
    "fr": (
        rf"autrefois|jadis|auparavant|anciennement|précédemment|précédente?s?|à l['’]époque|(?:dans|par) le passé|"
        rf"initialement|à l['’]origine|anciens?|anciennes?|avant{_END}|avant (?:de |d['’])(?:se |s['’])?(?:déménager|"
        r"changer|partir|quitter|marier|épouser|divorcer|vendre)|avant (?:le|son|sa|leur|mon|ma|ton|ta|votre) "
        r"(?:déménagement|mariage|changement|divorce|départ|retraite)|avant qu(?:e |['’])(?:\w+ ){1,3}(?:déménage|"
        r"change|parte|quitte|se marie)|(?:ne |n['’])(?:\w+ ){1,3}plus|vieille adresse|vieux (?:numéro|téléphone)",
        r"(?:jour|nuit|soir|soirée|semaine|mois|année|an|ans|jours|heures?) (?:d['’]avant|auparavant|précédente?s?)|"
        r"(?:ne |n['’])(?:\w+ ){1,3}plus (?:de|d['’]|que|qu['’])",
    ),
    "es": (
        rf"antes{_END}|antes de (?:mudar|cambiar|casar|irse|dejar|vender|divorciar|jubilar)\w*|antes de (?:la|el|su) "
        r"(?:mudanza|boda|cambio|divorcio|matrimonio|jubilación)|antes de que (?:\w+ ){1,4}(?:mudara|cambiara|casara|"
        r"dejara)|antes \w+(?:aba|ía)n?|solía[ns]?|anteriormente|anterior(?:es)?|antiguamente|antigu[oa]s?|previamente|"
        r"en el pasado|(?:por|en aquel) entonces|originalmente|ya no|viej[oa] (?:dirección|casa|piso|trabajo|número|"
        r"teléfono)",
        r"(?:día|noche|semana|mes|año|tarde|mañana) anterior|cuanto antes|lo antes posible",
    ),
    "it": (
        rf"prima{_END}|prima di (?:trasferir|cambiar|sposar|lasciar|vender|divorziar|andar)\w*|prima (?:del|della|di) "
        r"(?:trasloco|matrimonio|cambio|divorzio|pensione)|prima che (?:\w+ ){1,4}(?:trasferisse|cambiasse|sposasse|"
        r"lasciasse)|prima \w+[aei]va(?:no)?|un tempo|una volta \w+[aei]va(?:no)?|in passato|"
        r"precedentemente|precedenti?|originariamente|inizialmente|non (?:\w+ ){1,3}più|vecchi[oa] (?:indirizzo|casa|"
        r"lavoro|numero|telefono|appartamento|capo|ufficio|scuola)",
        r"(?:la|come|quanto|giorno|sera|notte|settimana|mese|anno|anni|ore|ora) prima|(?:giorno|sera|notte|settimana|"
        r"mese|anno) precedente|non (?:\w+ ){1,3}più (?:di|che)",
    ),
    "pt": (
        rf"antes{_END}|antes de (?:se )?(?:mudar|trocar|casar|deixar|sair|vender|divorciar|aposentar)\w*|antes d[aoe] "
        r"(?:mudança|casamento|divórcio|aposentadoria)|antes \w+(?:ava|ia)m?|costumava[ms]?|antigamente|outrora|"
        r"anteriormente|anterior(?:es)?|antig[oa]s?|previamente|no passado|originalmente|já não|não (?:\w+ ){1,3}mais|"
        r"velh[oa] (?:endereço|casa|morada|trabalho|emprego|número|telefone)",
        r"(?:dia|noite|semana|mês|ano|tarde|manhã) anterior|quanto antes|não (?:\w+ ){1,3}mais (?:de|do que|que)",
    ),
    "nl": (
        rf"vroeger|voorheen|destijds|voormalige?|toentertijd|in het verleden|oorspronkelijke?|eerder{_END}|"
        r"niet (?:\w+ )?meer|geen (?:\w+ ){1,2}meer|(?:vorige?|oude?) (?:adres|baan|huis|woning|nummer|telefoon\w*|"
        r"school|baas|kantoor|werkgever|bedrijf|auto|naam|wachtwoord|flat)|voordat (?:\w+ ){1,4}(?:verhuisde|trouwde|"
        r"veranderde|wisselde|wegging|stopte)|voor (?:de|haar|zijn|hun|mijn) (?:verhuizing|bruiloft|scheiding|"
        r"pensioen)",
        r"vroeger (?:of later|dan)|niet meer dan|(?:uur|dagen|dag|week|weken|maand|jaar) eerder",
    ),
}  # fmt: skip
_UNSPACED = (  # Chinese, Japanese, Korean
    r"(?<![\d年月日点點号號时時分天会會饭飯])(?:以前|之前(?=(?:一直|都|曾)?[住做在是用叫喜养養吃开開教学學有干幹当當]))|从前|從前|曾经|曾經|"
    r"(?:过去|過去|原来|原來|曾)(?=[住做在是的都常叫任当當])|原先|不再|[旧舊](?=地址|住址|工作|电话|電話|手机|手機|家|号码|號碼|房|单位|單位|公司|名)|前任|"
    r"(?<![\d年月日時])以前(?=[はのに、])|昔|かつて|もともと|元々|元の|前の(?=住所|仕事|職|電話|家|会社|学校|上司|番号|車|名前)|(?<![のる])前は|"
    r"旧(?=住所|姓|居|宅)|(?:引っ越す|結婚する|転職する|辞める)前|もう.{1,12}(?:ない|ません)|"
    r"예전|옛날|(?:^|[은는이가] )전에|이전(?=에|의| 주소| 직장| 집)|과거|한때|더 ?이상|원래|"
    r"옛 ?(?=주소|직장|집|번호|이름)|(?:이사하기|결혼하기|바꾸기) 전"
)


def asked_for(text: str) -> bool:
    """Whether a question is about what no longer is: "used to", "before", "früher", 以前."""
    codes = languages_of(text)
    if codes == ["en"] and STOP_WORDS.isdisjoint(text.lower().split()):
        codes = list(_LANGUAGES)  # "frühere Adresse" alone does not tell its language
    patterns = [_LANGUAGES[code] for code in codes if code in _LANGUAGES]
    cues, others = (rf"(?i)\b(?:{'|'.join(each)})(?!\w)" for each in zip(*patterns))
    said = re.sub(others, " ; ", text)
    return re.search(cues, said) is not None or re.search(_UNSPACED, text) is not None
