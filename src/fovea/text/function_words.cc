#include "fovea/text/function_words.h"

#include <array>

namespace fovea::text {
namespace {

constexpr std::array kForeign = {
    FunctionWords{
        "German",
        "der die das und ist nicht ein eine einen einer dem den des zu mit von auf für sich es er sie ich wir im als "
        "auch aus bei nach dass wie wenn aber oder nur sind wird hat haben war werden zum zur um noch vor"},
    FunctionWords{"Dutch",
                  "de het een van en dat niet te zijn op voor met aan er om ook als naar dan maar bij uit wordt die "
                  "deze heeft hij zij ze ik je dit wat nog werd door kan zich hebben"},
    FunctionWords{"Afrikaans", "die het en van nie wat om te sy hulle vir op met dat aan hy ek ons deur sal ook"},
    FunctionWords{"Danish",
                  "og det er en til på som af den med ikke der de et har jeg var han vi kan fra om eller blev også "
                  "efter når hun sig men"},
    FunctionWords{"Norwegian",
                  "og det er en til på som av den med ikke de et har jeg var han vi kan fra om eller ble også etter "
                  "når hun seg men"},
    FunctionWords{"Swedish",
                  "och det är en till på som av den med inte de ett har jag var han vi kan från om eller blev också "
                  "efter när hon sig men att för"},
    FunctionWords{"Icelandic", "og að er sem það ekki til með en við um hann af fyrir ég var hún þá eru frá eða"},
    FunctionWords{
        "French",
        "le la les et des un une du que est dans pour qui il elle ne pas au aux par sur ce se avec sont plus nous vous "
        "je mais ou où cette ces son sa ses leur être été comme si c'est d'un d'une qu'il l'on en de"},
    FunctionWords{"Spanish",
                  "de la el que y en los las un una se del por con su para es al lo como más pero sus le ya este sí "
                  "porque esta entre cuando muy sin sobre también hasta hay donde son"},
    FunctionWords{"Portuguese",
                  "de que não um uma os da em para com se na por mais dos das ao ele ela como mas foi são está seu sua "
                  "ou ser quando muito nos já eu também pelo pela até"},
    FunctionWords{"Italian",
                  "di che il la un una per non sono è del della dei delle le gli si con da più ma come anche lo nel "
                  "nella al alla questo questa ha ed cui dal se dove quando"},
    FunctionWords{"Catalan", "de la el que els les un una en per amb és del al dels com més però aquest són ha seva"},
    FunctionWords{
        "Romanian",
        "de la și în nu un o care cu pe din mai este că pentru sunt se dar ce ca au fost prin după sau lui ei"},
    FunctionWords{"Latin", "et non est ad cum quod ut sed ex per atque enim si quam qui quae sunt ab aut esse"},
    FunctionWords{"Polish", "w nie na się z że jest jak co po ale tak za od jego przez był są dla czy już tylko"},
    FunctionWords{"Czech", "se v na je že s z o k jako si pro ale tak jsou byl jeho po od podle které"},
    FunctionWords{"Slovak", "sa v na je že s z o k ako si pre ale tak sú bol jeho po od podľa ktoré"},
    FunctionWords{"Croatian", "je se na da za su od s o kao što nije bi koji iz ali po će biti koja te ili"},
    FunctionWords{"Slovenian", "je se na da za od s ki kot ni bi pa po tudi iz ali pri kako kar še lahko"},
    FunctionWords{"Lithuanian", "ir yra kad į iš su bet ar kaip apie tai jo už po buvo nuo dėl taip jis"},
    FunctionWords{"Latvian", "un ir ka par uz ar bet kas vai kā tas viņš bija ne pie pēc arī"},
    FunctionWords{"Estonian", "ja ei et see kui ta oli ning oma ka mis aga siis nii ega või kuid kes"},
    FunctionWords{"Finnish", "ja ei että se hän oli ovat mutta kun joka myös niin tai sen ole mitä kuin hänen vain"},
    FunctionWords{"Hungarian", "az és hogy nem egy van volt meg de ez csak már még azt mint vagy ha ki el fel"},
    FunctionWords{"Turkish", "ve bir bu da de için ile çok daha olarak gibi ne var olan o kadar sonra ama değil en"},
    FunctionWords{"Indonesian or Malay",
                  "yang dan di dengan untuk ini itu dari dalam tidak akan pada ke ada oleh juga saya telah atau mereka "
                  "adalah bisa karena dia kami sudah boleh orang"},
    FunctionWords{"Tagalog", "ang ng sa na mga ay si ko hindi ito para siya ni kung nang mo niya may kay"},
    FunctionWords{"Swahili", "ya na wa kwa ni katika la za kuwa cha hii huo yake wao lakini kama hiyo kutoka pia"},
    FunctionWords{"Vietnamese", "và của là có không cho được trong một các với này đã những người khi để từ như đến"},
    FunctionWords{"Welsh", "yn yr ar mae ei gan hyn ac am bod wedi oedd fod mewn eu gyda hefyd ond"},
    FunctionWords{"Irish", "agus na ar go le ag bhí tá sé sin ach mar níl bhfuil leis chun"},
    FunctionWords{"Basque", "eta da ez du bat dira zen izan ere egin baina dute hau zuen dago"},
    FunctionWords{"Albanian", "dhe në të një është për që nuk së nga si ka janë ai por"},
    FunctionWords{"Esperanto", "la kaj de estas ne en mi li al ke vi por ĝi pri sed kun tiu estis"},
};

}  // namespace

std::string_view english_function_words() {
  return "the of and to a in is it that was for on he she you i we they with as at be by his her this not are have had "
         "from or but my your our its their there what which who will would can could if so when all no do did been "
         "has were one said out up about into them him me than then some more an how now just like only also u ur";
}

std::span<const FunctionWords> foreign_function_words() { return kForeign; }

}  // namespace fovea::text
