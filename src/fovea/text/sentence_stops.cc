#include "fovea/text/sentence_stops.h"

#include <string_view>

#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

// Words that end in a full stop within a sentence, folded to lower case. Words that also end sentences often ("etc.")
// are left out: a break too many makes the counts of the two sides differ, and the pair stays whole. ICU has such lists
// too (the keyword ss), which also have words such as "all." and "go.". Initials and letters apart by dots need no
// list.
struct Abbreviations {
  std::string_view language, words;  // apart by '|'
  bool has_ordinals = false;         // 3. is "third"
};
constexpr Abbreviations kAbbreviations[] = {
    {"en",
     "e.g.|e. g.|i.e.|i. e.|vs.|cf.|approx.|fig.|figs.|resp.|incl.|mr.|mrs.|ms.|mx.|dr.|drs.|prof.|st.|viz.|ca.|"
     "gen.|col.|maj.|capt.|cpt.|lt.|sgt.|cpl.|adm.|cmdr.|brig.|hon.|rev.|fr.|gov.|sen.|rep.|pres.|messrs.|jan.|feb.|"
     "apr.|aug.|sept.|oct.|nov.|dec.|mt.|vol.|vols.|pp.|eds.|univ."},
    {"de",
     "z.b.|z. b.|d.h.|d. h.|u.a.|u. a.|u.u.|u. u.|o.ä.|o. ä.|z.t.|z. t.|s.u.|s. u.|s.o.|s. o.|i.d.r.|i. d. r.|"
     "bzw.|ca.|vgl.|ggf.|evtl.|inkl.|nr.|abb.|max.|min.|dr.|prof.|hr.|hrn.|fr.|frl.|sog.|bspw.|engl.|st.|dipl.|ing.|"
     "mag.|gen.|hptm.|oblt.|ltn.|maj.|obst.|kap.|bd.|hrsg.|geb.|gest.|gegr.|ehem.|jan.|feb.|febr.|aug.|sept.|okt.|nov.|"
     "dez.|mio.|mrd.|tel.|zzgl.|exkl.|lat.|frz.|ital.|griech.|russ.|amerik.|rd.|zw.",
     true},
    {"fr",
     "p.ex.|p. ex.|ex.|c.-à-d.|cf.|env.|réf.|fig.|m.|mm.|mme.|mlle.|mgr.|me.|dr.|pr.|st.|ste.|gén.|col.|cap.|lt.|"
     "janv.|févr.|avr.|juil.|sept.|oct.|nov.|déc.|av.|chap.|vol."},
    {"es",
     "p.ej.|p. ej.|ej.|sr.|sra.|srta.|sres.|d.|dña.|dr.|dra.|prof.|lic.|ing.|gral.|cnel.|cap.|tte.|sgto.|mons.|aprox.|"
     "núm.|máx.|mín.|fig.|pág.|págs.|vol.|cap.|av.|avda.|ene.|abr.|ago.|sept.|oct.|nov.|dic."},
    {"it",
     "ad es.|p.es.|p. es.|es.|sig.|sigg.|sig.ra.|dott.|dott.ssa.|prof.|prof.ssa.|ing.|avv.|arch.|on.|gen.|col.|cap.|"
     "ten.|mons.|fig.|max.|min.|pag.|pagg.|vol.|cfr.|genn.|febbr.|ott.|nov.|dic.|sett."},
    {"pt",
     "p.ex.|p. ex.|ex.|sr.|sra.|srta.|dr.|dra.|prof.|profa.|eng.|gen.|cel.|cap.|ten.|sgt.|máx.|mín.|fig.|pág.|vol.|"
     "av.|fev.|abr.|ago.|set.|out.|nov.|dez."},
    {"nl",
     "bijv.|d.w.z.|o.a.|m.a.w.|dhr.|mevr.|mej.|dr.|drs.|prof.|ir.|ing.|mr.|ds.|st.|gen.|kol.|kap.|lt.|nr.|max.|min.|"
     "blz.|vgl.|incl.|excl.|ca.|jan.|feb.|apr.|aug.|sept.|okt.|nov.|dec."},
    {"sv", "t.ex.|t. ex.|bl.a.|bl. a.|d.v.s.|ca.|dr.|prof.|st.|gen.|jan.|feb.|aug.|sept.|okt.|nov.|dec.|resp.|s.k."},
    {"da", "f.eks.|f. eks.|bl.a.|dvs.|ca.|dr.|prof.|hr.|fr.|frk.|gen.|sct.|jan.|feb.|aug.|sept.|okt.|nov.|dec.|nr.",
     true},
    {"nb", "f.eks.|f. eks.|bl.a.|dvs.|ca.|dr.|prof.|hr.|fr.|frk.|gen.|st.|jan.|feb.|aug.|sept.|okt.|nov.|des.|nr.",
     true},
    {"nn", "t.d.|bl.a.|dvs.|ca.|dr.|prof.|hr.|fr.|gen.|st.|jan.|feb.|aug.|sept.|okt.|nov.|des.|nr.", true},
    {"no", "f.eks.|f. eks.|bl.a.|dvs.|ca.|dr.|prof.|hr.|fr.|frk.|gen.|st.|jan.|feb.|aug.|sept.|okt.|nov.|des.|nr.",
     true},
    {"fi", "esim.|mm.|ts.|ks.|tri.|prof.|kenr.|ev.|maist.|n.|s.|ent.", true},
    {"is", "t.d.|dr.|prof.|hr.|sr.|nr.|jan.|feb.|ágú.|sept.|okt.|nóv.|des.", true},
    {"et", "nt.|s.o.|dr.|prof.|hr.|pr.|kol.|kin.|lk.|nr.|jaan.|veebr.|aug.|sept.|okt.|nov.|dets.", true},
    {"lv", "piem.|t.i.|dr.|prof.|ģen.|plkv.|nr.|jūl.|janv.|febr.|apr.|aug.|sept.|okt.|nov.|dec.", true},
    {"lt", "pvz.|t. y.|t.y.|dr.|prof.|gen.|plk.|nr.|p.|ponas.", true},
    {"lb", "z.b.|d.h.|dr.|prof.|nr.", true},
    {"pl",
     "np.|m.in.|tzn.|tj.|ok.|dr.|prof.|mgr.|inż.|hab.|gen.|płk.|ppłk.|mjr.|kpt.|por.|św.|ks.|o.|nr.|ul.|al.|im.|tzw."
     "|tys.|mln.|mld.",
     true},
    {"cs",
     "např.|tzn.|tj.|č.|mudr.|judr.|rndr.|phdr.|paeddr.|thdr.|ing.|mgr.|bc.|doc.|prof.|dr.|gen.|plk.|kpt.|por.|sv.|"
     "tzv.|str.|obr.|ul.|nám.|resp.|popř.",
     true},
    {"sk",
     "napr.|tzn.|tj.|č.|mudr.|judr.|rndr.|phdr.|paeddr.|thdr.|ing.|mgr.|bc.|doc.|prof.|dr.|gen.|plk.|kpt.|por.|sv.|"
     "tzv.|str.|obr.|ul.|nám.|resp.|príp.",
     true},
    {"sl", "npr.|tj.|t.i.|t. i.|dr.|prof.|mag.|ing.|g.|ga.|gen.|sv.|št.|str.|oz.|ipd.", true},
    {"hr", "npr.|tj.|tzv.|dr.|prof.|mr.|ing.|g.|gđa.|gen.|sv.|br.|str.|sl.", true},
    {"bs", "npr.|tj.|tzv.|dr.|prof.|mr.|ing.|g.|gđa.|gen.|sv.|br.|str.|sl.", true},
    {"sr", "npr.|tj.|tzv.|dr.|prof.|mr.|gen.|sv.|br.|str.|нпр.|тј.|тзв.|др.|проф.|ген.|св.|бр.|стр.", true},
    {"mk", "на пр.|т.е.|т.н.|д-р.|проф.|ген.|св.|бр.|стр."},
    {"hu",
     "pl.|ill.|kb.|dr.|prof.|id.|ifj.|özv.|gen.|szt.|u.|ún.|okl.|tbk.|jan.|febr.|márc.|ápr.|jún.|júl.|aug.|szept.|"
     "okt.|nov.|dec.",
     true},
    {"tr", "örn.|bkz.|dr.|prof.|doç.|yrd.|av.|sn.|gen.|alb.|yzb.|no.|vb.|cad.|sok.|mah.", true},
    {"ro", "ex.|dl.|dna.|dr.|prof.|ing.|gen.|col.|cpt.|lt.|sf.|nr.|str.|fig.|pag.|cca."},
    {"ca", "p. ex.|p.ex.|sr.|sra.|dr.|dra.|prof.|gral.|núm.|pàg.|fig.|aprox.|av."},
    {"el", "π.χ.|π. χ.|δηλ.|κ.|κκ.|κα.|δρ.|καθ.|στρ.|αρ.|σελ.|βλ.|αγ."},
    {"ru",
     "т.е.|т. е.|т.д.|т. д.|т.п.|т. п.|т.к.|т. к.|напр.|см.|рис.|г.|гг.|г-н.|г-жа.|проф.|акад.|доц.|инж.|ген.|"
     "полк.|подполк.|кап.|лейт.|св.|им.|ул.|д.|стр.|тыс.|млн.|млрд.|янв.|февр.|апр.|авг.|сент.|окт.|нояб.|дек."},
    {"uk",
     "т.д.|т. д.|т.п.|т. п.|т.зв.|напр.|див.|рис.|м.|р.|рр.|проф.|акад.|доц.|інж.|ген.|полк.|св.|ім.|вул.|стор.|тис.|"
     "млн.|млрд.|січ.|лют.|берез.|квіт.|трав.|черв.|лип.|серп.|верес.|жовт.|листоп.|груд."},
    {"be", "напр.|гл.|мал.|праф.|акад.|ген.|св.|імя.|вул.|стар.|тыс.|млн."},
    {"bg",
     "напр.|вж.|фиг.|г.|гр.|г-н.|г-жа.|д-р.|проф.|акад.|доц.|инж.|ген.|полк.|кап.|св.|ул.|бул.|стр.|бр.|хил.|млн."},
};

// Articles, pronouns, conjunctions, prepositions and adverbs, which have a capital only as the first word of a
// sentence: behind a letter or a number with a full stop, they tell that the stop ends a sentence. Words that also
// begin names
// ("De", "Le", "Van") are left out.
struct FirstWords {
  std::string_view language, words;  // apart by blanks
};
constexpr FirstWords kFirstWords[] = {
    {"en",
     "the a an this that these those it he she we you they i there here in on at for from with without when if as but "
     "and or so then thus however although because while after before since what who where why how his her its our "
     "their my your"},
    {"de",
     "der die das den dem des ein eine einen einem einer eines dieser diese dieses diesen diesem er sie es wir ich ihr "
     "man was wer wo wie warum wann dann danach da dort hier so auch aber und oder doch denn wenn als weil obwohl "
     "nachdem bevor während seit in im an am auf aus bei mit nach von vom vor zu zum zur für über unter durch ohne um "
     "nun jetzt heute damals später nur noch nicht kein keine alle alles sein seine ihre unser unsere mein meine"},
    {"fr",
     "il elle ils elles on nous vous je tu ce cet cette ces un une les et mais ou donc or puis ensuite alors ainsi "
     "dans "
     "en sur sous pour par avec sans si quand comme lorsque après avant depuis son sa ses leur leurs notre votre mon "
     "ma"},
    {"es",
     "un una unos unas este esta estos estas ese esa eso esto yo tú él ella ellos ellas nosotros usted ustedes y pero "
     "o "
     "entonces luego así en con sin por para sobre si cuando como porque aunque después antes su sus mi mis hay"},
    {"it",
     "il lo gli un uno una questo questa questi queste quello quella egli lei lui essi noi voi io e ma o poi quindi "
     "così "
     "in con senza per su se quando come perché dopo prima suo sua mio mia nel nella"},
    {"pt",
     "um uma este esta estes estas esse essa isso isto ele ela eles elas nós você vocês eu e mas ou então depois assim "
     "em "
     "no na nos nas com sem por para sobre se quando como porque antes seu sua meu minha"},
    {"nl",
     "het een dit dat deze die hij zij ze wij we ik jij je u er en maar of dus dan toen daarna daar hier zo in op aan "
     "bij "
     "met zonder voor na naar om als wanneer omdat hoewel terwijl wat wie waar hoe zijn haar hun ons onze mijn"},
    {"sv",
     "det en ett denna detta dessa han hon vi jag du ni de man och men eller så då sedan därefter där här i på vid med "
     "utan för från till om när eftersom innan efter vad vem var hur hans hennes deras vår min"},
    {"da",
     "det en et denne dette disse han hun vi jeg du i de man og men eller så da derefter der her på ved med uden for "
     "fra "
     "til om når hvis fordi før efter hvad hvem hvor hvordan hans hendes deres vores min"},
    {"nb",
     "det en ei et denne dette disse han hun vi jeg du dere de man og men eller så da deretter der her i på ved med "
     "uten "
     "for fra til om når hvis fordi før etter hva hvem hvor hvordan hans hennes deres vår min"},
    {"nn",
     "det ein ei eit denne dette desse han ho vi eg du de dei ein og men eller så då deretter der her i på ved med "
     "utan for "
     "frå til om når viss fordi før etter kva kven kvar korleis hans hennar deira vår min"},
    {"no",
     "det en ei et denne dette disse han hun vi jeg du dere de man og men eller så da deretter der her i på ved med "
     "uten "
     "for fra til om når hvis fordi før etter hva hvem hvor hvordan hans hennes deres vår min"},
    {"fi",
     "se hän he me te minä sinä tämä nämä nuo ne ja mutta tai sitten siellä täällä siis kun jos koska vaikka mikä kuka "
     "missä miten sen hänen heidän minun myös nyt silloin ei"},
    {"is",
     "það hann hún við ég þú þeir þær þau þetta þessi og en eða svo þá síðan þar hér í á með án fyrir frá til þegar ef "
     "hvað hver hvar hvernig hans hennar þeirra"},
    {"et",
     "see ta tema nad me te ma mina sina need ja aga kuid või siis seal siin nii kui kuna sest mis kes kus kuidas "
     "nende minu ka nüüd ei"},
    {"lv",
     "tas tā viņš viņa viņi mēs jūs es tu šis šī šie un bet vai tad pēc tur šeit tā kad ja jo kas kur kā no ar bez par "
     "uz viņu mans arī tagad"},
    {"lt",
     "tai jis ji jie jos mes jūs aš tu šis ši šie ir bet ar tada po ten čia taip kai jei nes kas kur kaip iš su be "
     "apie "
     "jo jų mano taip dabar"},
    {"lb",
     "de den dat dës dëst hien hatt si mir ech du et en eng an awer oder dann do hei sou wann wéi well no virun mat"},
    {"pl",
     "to ten ta te ci on ona ono oni one my wy ja ty jest są i ale lub albo więc potem tam tu tak w na z ze do od po "
     "przed "
     "przez dla bez gdy kiedy jeśli ponieważ co kto gdzie jak jego jej ich nasz mój nie"},
    {"cs",
     "to ten ta ti ty on ona ono oni my vy já je jsou a ale nebo tak pak potom tam tady zde v ve na s z ze do od po "
     "před "
     "pro bez když pokud protože co kdo kde jak jeho její jejich náš můj ne byl byla bylo"},
    {"sk",
     "to ten tá tí on ona ono oni my vy ja je sú a ale alebo tak potom tam tu v vo na s z zo do od po pred pre bez keď "
     "ak "
     "pretože čo kto kde ako jeho jej ich náš môj nie bol bola bolo"},
    {"sl",
     "to ta ti on ona ono oni mi vi jaz je so in a ampak ali torej potem tam tu tukaj tako v na s z iz do od po pred "
     "za "
     "brez ko če ker kaj kdo kje kako njegov njen njihov naš moj ne bil bila bilo"},
    {"hr",
     "to taj ta ti on ona ono oni mi vi ja je su i a ali ili zato onda potom tamo tu ovdje tako u na s sa iz do od po "
     "prije "
     "za bez kad kada ako jer što tko gdje kako njegov njezin njihov naš moj ne bio bila bilo"},
    {"bs",
     "to taj ta ti on ona ono oni mi vi ja je su i a ali ili zato onda potom tamo tu ovdje tako u na s sa iz do od po "
     "prije "
     "za bez kad kada ako jer što ko gdje kako njegov njen njihov naš moj ne bio bila bilo"},
    {"sr",
     "to taj ta ti on ona ono oni mi vi ja je su i a ali ili zato onda potom tamo tu ovde tako u na s sa iz do od po "
     "pre za "
     "bez kad kada ako jer šta ko gde kako njegov njen njihov naš moj ne bio bila bilo то тај та ти он она оно они ми "
     "ви "
     "ја је су и а али или зато онда потом тамо ту овде тако у на с са из до од по пре за без кад када ако јер шта ко "
     "где "
     "како његов њен њихов наш мој не био била било"},
    {"mk",
     "тоа тој таа тие ние вие јас е се и а но или затоа потоа таму тука така во на со од до по пред за без кога ако "
     "бидејќи "
     "што кој каде како неговиот нејзиниот нашиот не"},
    {"hu",
     "a az egy ez ezek azok ő ők mi ti én te és de vagy majd aztán akkor ott itt így ha amikor mert bár hogy mit ki "
     "hol "
     "hogyan nem is most"},
    {"tr",
     "bu şu o bir bunlar onlar biz siz ben sen ve ama fakat veya sonra orada burada böyle ancak çünkü eğer ne kim "
     "nerede "
     "nasıl onun bizim benim de da"},
    {"ro",
     "un o acest această acești aceste el ea ei ele noi voi eu tu și dar sau apoi acolo aici astfel în pe la cu fără "
     "pentru "
     "din de după înainte când dacă ce cine unde cum nu"},
    {"ca",
     "un una aquest aquesta aquests això ell ella ells nosaltres vostè jo i però o després llavors així en amb sense "
     "per "
     "sobre si quan com perquè"},
    {"el",
     "ο η το οι τα ένας μια ένα αυτός αυτή αυτό αυτοί εγώ εσύ εμείς και αλλά ή μετά τότε εκεί εδώ έτσι σε στο στη στον "
     "στην "
     "με χωρίς για από όταν αν επειδή τι ποιος πού πώς δεν"},
    {"ru",
     "это этот эта эти тот та те он она оно они мы вы я ты и а но или потом затем тогда там тут здесь так в во на с со "
     "из "
     "до от по перед для без когда если потому что кто где как его её их наш мой не был была было"},
    {"uk",
     "це цей ця ці той та ті він вона воно вони ми ви я ти і й а але або потім тоді там тут так у в на з із до від по "
     "перед "
     "для без коли якщо бо що хто де як його її їх наш мій не був була було"},
    {"be",
     "гэта гэты той тая ён яна яно яны мы вы я ты і а але або потым тады там тут так у на з да ад па перад для без "
     "калі "
     "таму што хто дзе як яго яе іх наш мой не быў была было"},
    {"bg",
     "това този тази тези той тя то те ние вие аз ти и а но или после тогава там тук така в във на с със от до по пред "
     "за "
     "без когато ако защото какво кой къде как неговият нашият не беше"},
};

icu::UnicodeString word_units(const std::string& text) { return icu::UnicodeString::fromUTF8(text); }

}  // namespace

Stops stops_of(const std::string& language) {
  Stops stops;
  const std::string plain = lower(language.substr(0, language.find('-')));
  for (const FirstWords& list : kFirstWords) {
    if (plain != list.language) continue;
    for (const std::string& word : fovea::split(list.words, ' ')) stops.first_words.push_back(word_units(word));
  }
  for (const Abbreviations& list : kAbbreviations) {
    if (plain != list.language) continue;
    for (const std::string& word : fovea::split(list.words, '|')) stops.abbreviations.push_back(word_units(word));
    stops.has_ordinals = list.has_ordinals;
  }
  return stops;
}

}  // namespace fovea::text
