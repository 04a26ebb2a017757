//! Words of the commonest phrases in languages other than English. The format is the one of `english.rs`.
//!
//! Words are written as people write them. The automaton folds them like the text, so accents do not matter. Scripts
//! without spaces between words match anywhere.

use super::concept::Concept::{self, *};

pub(super) const LANGUAGES: &[(&str, &[(Concept, &str)])] = &[
    ("de", &[
        (Ignore, "ignoriere, ignorieren, vergiss, missachte, beachte nicht, ignorier"), (Prior, "vorherigen, vorherige, bisherigen, bisherige, früheren, obigen, vorigen"),
        (Rules, "anweisungen, anweisung, regeln, vorgaben, instruktionen, sicherheitsregeln"), (User, "benutzer, nutzer, anwender, benutzerin, jemandem, niemandem, kunden"),
        (Negation, "nicht, nichts, niemals, nie, kein, keine, keinem, ohne, niemandem"), (Tell, "sag, sage, sagen, erwähne, erwähnen, verrate, informiere, mitteilen, erzähle, teile, melde, berichte"),
        (Hide, "verschweige, verschweig, verheimliche, verstecke, verbirg, heimlich, geheim, unbemerkt"), (Send, "sende, schicke, schick, übermittle, leite, weiterleiten, übertrage, lade, senden, überweise"),
        (Supply, "übergib, übergebe, füge, gib, trage, hänge, schreibe, kopiere"), (Read, "lies, lese, öffne, lade, hole, auslesen, kopiere, lesen"),
        (Secret, "passwort, passwörter, kennwort, kennwörter, zugangsdaten, schlüssel, anmeldedaten, token, geheimnisse"), (Conversation, "gespräch, gesprächsverlauf, unterhaltung, chatverlauf, verlauf, nachrichten, systemprompt"),
        (First, "zuerst, als erstes, zunächst"), (Before, "bevor, vor, ehe"), (Call, "rufe, ruf, aufrufen, benutze, benutzt, verwende, verwendest, nutze, nutzt, aufrufst"), (ThisTool, "dieses werkzeug, dieses tool, diesem werkzeug, diese funktion"),
        (OtherTools, "anderen werkzeug*, andere werkzeug*, anderes werkzeug, allen anderen, jedem anderen, anderen tools"), (Always, "immer, stets, unbedingt, jedes mal, jedesmal"), (File, "datei, dateien, inhalt"),
    ]),
    ("fr", &[
        (Ignore, "oublie, oubliez, ignore, ignorez, néglige, ne tiens pas compte"), (Prior, "précédentes, précédente, antérieures, ci-dessus, reçues"),
        (Rules, "consignes, instructions, règles, directives"), (User, "utilisateur, l'utilisateur, utilisatrice, personne, quiconque, client"),
        (Negation, "ne, n'en, pas, jamais, sans, n'informe, rien"), (Tell, "dis, dites, parle, parlez, mentionne, mentionnez, informe, informez, préviens, prévenir, signale, révèle, informer, dire, avertir"),
        (Hide, "cache, cachez, dissimule, en secret, discrètement, à l'insu"), (Send, "envoie, envoyez, transmets, transmettez, transfère, expédie, envoyer, téléverse, communique"),
        (Supply, "ajoute, ajoutez, inclus, incluez, joins, passe, mets, fournis, remplis, colle"), (Read, "lis, lisez, ouvre, ouvrez, récupère, charge, lire, copie"),
        (Secret, "mot de passe, mots de passe, clé privée, clés privées, clés, clé api, identifiants, jeton, jetons, secrets"), (Conversation, "conversation, l'historique, historique, discussion, messages, échanges"),
        (First, "en premier, d'abord, tout d'abord"), (Before, "avant"), (Call, "appelle, appelez, utilise, utiliser, utilisez, d'utiliser, invoque, exécute"), (ThisTool, "cet outil, cette fonction, l'outil"),
        (OtherTools, "autre outil, autres outils, tout autre, tous les autres, n'importe quel"), (Always, "toujours, systématiquement, à chaque, obligatoirement"), (File, "fichier, fichiers, contenu"), (Recipient, "copie cachée, destinataire, en copie"),
    ]),
    ("es", &[
        (Ignore, "ignora, ignore, olvida, descarta, haz caso omiso, pasa por alto"), (Prior, "anteriores, previas, anterior, previos"), (Rules, "instrucciones, reglas, indicaciones, normas, órdenes"),
        (User, "usuario, al usuario, usuaria, nadie, persona, cliente"), (Negation, "no, nunca, sin, jamás, nada"), (Tell, "digas, decir, díselo, menciones, mencionar, informes, informar, avises, avisar, cuentes, contar, reveles, comentes, comuniques, lo digas"),
        (Hide, "oculta, ocúlta*, esconde, en secreto, a escondidas, disimula"), (Send, "envía, envíe, envíalo, envíala, envíalas, manda, reenvía, transmite, enviar, sube, remite"), (Supply, "añade, agrega, incluye, pasa, pon, adjunta, copia, rellena, entrega"),
        (Read, "lee, lea, abre, obtén, extrae, carga, leer, consulta"), (Secret, "contraseña, contraseñas, clave, claves, clave privada, credenciales, secretos, token, tokens"), (Conversation, "conversación, historial, chat, mensajes, diálogo"),
        (First, "primero, en primer lugar"), (Before, "antes de, antes que, antes"), (Call, "llama, llame, usa, usar, utiliza, utilizar, invoca, ejecuta"), (ThisTool, "esta herramienta, esta función, a esta herramienta"),
        (OtherTools, "cualquier otra, otra herramienta, otras herramientas, las demás"), (Always, "siempre, cada vez, obligatoriamente"), (File, "archivo, archivos, fichero, contenido"), (Recipient, "copia oculta, destinatario, en copia"),
    ]),
    ("it", &[
        (Ignore, "ignora, ignorare, dimentica, trascura"), (Prior, "precedenti, precedente, anteriori"), (Rules, "istruzioni, regole, direttive, indicazioni"), (User, "utente, all'utente, l'utente, utenti, nessuno, cliente, persona"),
        (Negation, "non, mai, senza, niente, nulla"), (Tell, "dire, dirlo, informare, menzionare, rivelare, avvisare, parlarne, dica, comunicare, avvertire, farne parola"), (Hide, "nascondi, nascondere, occulta, di nascosto, in segreto, segretamente"),
        (Send, "invia, inviale, inviali, invialo, inviare, manda, trasmetti, inoltra, spedisci, carica, invii"), (Supply, "aggiungi, includi, inserisci, passa, allega, metti, copia, fornisci, cambia"), (Read, "leggi, apri, recupera, estrai, leggere, carica"),
        (Secret, "password, credenziali, chiave privata, chiavi, chiave, segreti, token"), (Conversation, "conversazione, cronologia, chat, messaggi, dialogo"), (First, "per primo, per prima cosa, innanzitutto, prima"), (Before, "prima di, prima che, prima"),
        (Call, "chiama, usare, usa, utilizza, utilizzare, invoca, esegui"), (ThisTool, "questo strumento, questa funzione, questo tool"), (OtherTools, "altro strumento, altri strumenti, qualsiasi altro, tutti gli altri"), (Always, "sempre, ogni volta, obbligatoriamente"), (File, "file, contenuto, documento"), (Recipient, "destinatario, copia nascosta, ccn"),
    ]),
    ("pt", &[
        (Ignore, "ignore, ignora, esqueça, desconsidere, despreze"), (Prior, "anteriores, prévias, anterior"), (Rules, "instruções, regras, orientações, diretrizes"), (User, "usuário, ao usuário, utilizador, ninguém, pessoa, cliente"),
        (Negation, "não, nunca, sem, jamais, nada"), (Tell, "conte, diga, mencione, informe, avise, revele, comente, fale, contar, dizer, informar"), (Hide, "oculte, esconda, em segredo, às escondidas, secretamente"),
        (Send, "envie, envie-o, enviar, mande, transmita, encaminhe, carregue, reenvie"), (Supply, "inclua, adicione, passe, coloque, anexe, acrescente, copie, preencha"), (Read, "leia, abra, obtenha, extraia, ler, carregue"), (Secret, "senha, senhas, chave privada, chaves, credenciais, segredos, token"),
        (Conversation, "conversa, histórico, chat, mensagens, diálogo"), (First, "primeiro, em primeiro lugar"), (Before, "antes de, antes que, antes"), (Call, "chame, usar, use, utilize, utilizar, invoque, execute"), (ThisTool, "esta ferramenta, esta função"),
        (OtherTools, "qualquer outra, outra ferramenta, outras ferramentas, as demais"), (Always, "sempre, cada vez, obrigatoriamente"), (File, "arquivo, ficheiro, conteúdo"), (Recipient, "cópia oculta, destinatário"),
    ]),
    ("nl", &[
        (Ignore, "negeer, vergeet"), (Prior, "eerdere, vorige, voorgaande, bovenstaande"), (Rules, "instructies, regels, aanwijzingen, richtlijnen"), (User, "gebruiker, niemand, klant"), (Negation, "niet, niets, nooit, geen, zonder, niemand"), (Tell, "vertel, zeg, meld, vermeld, informeer, onthul"),
        (Hide, "verberg, verzwijg, stiekem, geheim"), (Send, "stuur, verzend, verstuur, upload, door"), (Supply, "geef, voeg, zet, vul, plak, mee"), (Read, "lees, open, haal"), (Secret, "wachtwoord, wachtwoorden, sleutel, inloggegevens, token, geheimen"), (Conversation, "gesprek, chatgeschiedenis, berichten"),
        (First, "eerst, als eerste"), (Before, "voordat, voor gebruik, vooraf"), (Call, "roep, gebruik, gebruikt, aan te roepen"), (ThisTool, "deze tool, dit gereedschap, dit hulpmiddel"), (OtherTools, "andere tools, andere tool, alle andere"), (Always, "altijd, telkens, steeds"), (File, "bestand, bestanden, inhoud"),
    ]),
    ("pl", &[
        (Ignore, "zignoruj, ignoruj, pomiń, zapomnij"), (Prior, "poprzednie, wcześniejsze, powyższe, poprzednich"), (Rules, "instrukcje, instrukcji, polecenia, zasady, reguły"), (User, "użytkownik*, nikomu, klient*"), (Negation, "nie, nigdy, bez, nic, nikomu"),
        (Tell, "mów, mówić, wspominaj, informuj, powiadamiaj, ujawniaj, zdradzaj"), (Hide, "ukryj, ukrywaj, potajemnie, po cichu, w tajemnicy"), (Send, "wyślij, prześlij, wysyłaj, przekaż, przekazuj"), (Supply, "dołącz, dodaj, wpisz, podaj, umieść, wklej"), (Read, "odczytaj, przeczytaj, otwórz, czytaj, pobierz"),
        (Secret, "hasło, hasła, hasłami, haseł, klucz*, token*, poświadczenia, dane logowania"), (Conversation, "rozmow*, historię, wiadomości, czat*"), (First, "jako pierwsze, najpierw, pierwsz*"), (Before, "zanim, przed"), (Call, "wywołuj, wywołaj, użyj, używaj, użyciem"), (ThisTool, "to narzędzie, tego narzędzia, tym narzędziem"),
        (OtherTools, "inne narzędzia, innych narzędzi, innym narzędziem, inne, wszystkimi innymi"), (Always, "zawsze, za każdym razem"), (File, "plik, pliku, treść, zawartość"),
    ]),
    ("tr", &[
        (Ignore, "yok say, görmezden gel, unut, dikkate alma"), (Prior, "önceki"), (Rules, "talimat*, kural*, yönerge*"), (User, "kullanıcı*, kimse*"), (Negation, "asla, hiç"), (Tell, "söyleme*, bahsetme*, bildirme*, haber verme*, anlatma*"),
        (Hide, "gizle, gizlice, sakla"), (Send, "gönder*, ilet*, yükle, aktar"), (Supply, "ekle, koy, geçir, yaz"), (Read, "oku*, aç"), (Secret, "parola*, şifre*, anahtar*, kimlik bilgi*"), (Conversation, "konuşma*, sohbet*, mesajlar*"), (First, "ilk olarak, önce"), (Before, "önce, kullanmadan önce"),
        (Call, "çağır, kullan, kullanmadan, çalıştır"), (ThisTool, "bu araç, bu aracı"), (OtherTools, "diğer araç*, başka araç*, diğer tüm"), (Always, "her zaman, daima, mutlaka"), (File, "dosya*, içeri*"),
    ]),
    ("sv", &[
        (Ignore, "ignorera, strunta i, glöm"), (Prior, "tidigare, föregående"), (Rules, "instruktioner, regler, anvisningar"), (User, "användaren, användare, ingen"), (Negation, "inte, inget, aldrig, utan, ingen"), (Tell, "berätta, säg, nämn, informera, avslöja"), (Hide, "dölj, hemligt, i smyg"), (Send, "skicka, vidarebefordra, sänd, ladda upp"),
        (Supply, "lägg till, inkludera, bifoga"), (Read, "läs, öppna, hämta"), (Secret, "lösenord*, nyckel, nycklar, inloggningsuppgifter"), (Conversation, "konversation*, samtal*, chatt*"), (First, "först"), (Before, "innan, före"), (Call, "anropa, använd*, kör"), (ThisTool, "detta verktyg, verktyget"), (OtherTools, "andra verktyg, alla andra"), (Always, "alltid, varje gång"), (File, "fil, filen, innehåll*"),
    ]),
    ("cs", &[
        (Ignore, "ignoruj, zapomeň, nevšímej si"), (Prior, "předchozí, dřívější"), (Rules, "pokyny, instrukce, pravidla"), (User, "uživatel*, nikomu"), (Negation, "nikdy, bez, nikomu, to uživateli"), (Tell, "neříkej, nezmiňuj, neinformuj, neprozrazuj"), (Hide, "skryj, tajně, zataj"), (Send, "pošli, odešli, přepošli, nahraj"), (Supply, "přidej, vlož, předej"), (Read, "přečti, otevři, načti"),
        (Secret, "heslo, hesla, klíč*, přihlašovací údaje"), (Conversation, "konverzac*, rozhovor*, zpráv*"), (First, "jako první, nejprve, nejdřív"), (Before, "než, před"), (Call, "zavolej, volej, použij, použitím"), (ThisTool, "tento nástroj, tohoto nástroje"), (OtherTools, "ostatní nástroje, jiné nástroje, jiným nástrojem"), (Always, "vždy, pokaždé"), (File, "soubor*, obsah"),
    ]),
    ("ru", &[
        (Ignore, "игнорируй*, игнорируйте, забудь*, не обращай внимания"), (Prior, "предыдущ*, прежн*, ранее"), (Rules, "инструкци*, указани*, правил*, ограничени*"), (User, "пользовател*, никому, человек*"), (Negation, "не, никогда, без, ничего, никому"), (Tell, "говори*, сообщай*, упоминай*, рассказывай*, информируй*, раскрывай*, сообщая, уведомляй*, уведомления"),
        (Hide, "скрой*, скрывай*, тайно, незаметно, втайне, утаи"), (Send, "отправь*, отправляй*, перешли*, передай*, передавай*, загрузи*, пошли"), (Supply, "добавь*, включи*, вставь*, укажи*, запиши*, приложи*"), (Read, "прочитай*, прочти*, читай*, открой*, считай*, скопируй*, извлеки*"), (Secret, "парол*, ключ*, токен*, учетные данные, учётные данные, секрет*"), (Conversation, "переписк*, разговор*, диалог*, беседу, беседы, историю, сообщени*"),
        (First, "первым, сначала, сперва, в первую очередь"), (Before, "прежде, перед, до того"), (Call, "вызывай*, вызови*, используй*, использованием, запускай*, запусти*, применяй*"), (ThisTool, "этот инструмент, этого инструмента, этим инструментом, эту функцию"), (OtherTools, "других инструмент*, другим инструмент*, другие инструмент*, любым другим, всех остальных, всеми остальными, другими инструментами"), (Always, "всегда, каждый раз, обязательно"), (File, "файл*, содержим*"),
    ]),
    ("uk", &[
        (Ignore, "ігноруй*, забудь*"), (Prior, "попередн*"), (Rules, "інструкці*, вказівк*, правил*"), (User, "користувач*, нікому"), (Negation, "не, ніколи, без, нічого"), (Tell, "кажи*, повідомляй*, згадуй*, розповідай*, говори*"), (Hide, "приховай*, таємно, сховай*"), (Send, "надішли*, відправ*, передай*, перешли*"), (Supply, "додай*, встав*"), (Read, "прочитай*, відкрий*, зчитай*"), (Secret, "парол*, ключ*, токен*"), (Conversation, "розмов*, листуванн*, діалог*"), (First, "першим, спочатку"), (Before, "перед, перш"), (Call, "викликай*, виклич*, використовуй*, використанням"), (ThisTool, "цей інструмент, цього інструмент*"), (OtherTools, "інших інструмент*, інші інструмент*, будь-яким іншим"), (Always, "завжди, щоразу"), (File, "файл*, вміст*"),
    ]),
    ("zh", &[
        (Ignore, "忽略, 无视, 忘记, 忽視, 無視, 不要理会, 不要遵守"), (Prior, "之前的, 先前, 以前的, 上述, 此前, 以上"), (Rules, "指令, 指示, 规则, 規則, 说明, 提示词, 限制"), (User, "用户, 使用者, 任何人, 用戶, 他人"), (Negation, "不要, 不得, 请勿, 切勿, 不能, 不可, 无需, 勿, 禁止, 别, 绝不, 不必"), (Tell, "告诉, 告知, 提及, 提到, 通知, 透露, 说明, 告訴, 让用户知道, 披露, 说出"), (Hide, "隐瞒, 隐藏, 秘密, 悄悄, 偷偷, 保密, 暗中"),
        (Send, "发送, 上传, 转发, 传送, 提交, 发到, 發送, 发给, 传输, 寄到"), (Supply, "传入, 填入, 放入, 附上, 添加, 写入, 传递, 作为参数, 包含, 加入, 粘贴"), (Read, "读取, 打开, 查看, 获取, 讀取, 阅读, 读出"), (Secret, "密码, 密钥, 令牌, 凭据, 私钥, 密碼, 凭证, 口令, 密匙"), (Conversation, "对话, 聊天记录, 会话, 對話, 聊天, 系统提示, 消息记录, 历史记录"), (First, "首先, 优先, 先调用, 第一个, 先读取, 请先, 必须先"), (Before, "之前, 以前, 前请, 前先, 前必须, 前,"), (Call, "调用, 使用, 运行, 執行, 执行"), (ThisTool, "此工具, 这个工具, 本工具, 該工具, 该工具"), (OtherTools, "其他工具, 任何工具, 别的工具, 其它工具, 所有工具, 另一个工具"), (Always, "总是, 始终, 必须, 每次, 一律, 务必"), (File, "文件, 内容, 檔案"),
    ]),
    ("ja", &[
        (Ignore, "無視, 忘れ"), (Prior, "以前の, これまでの, 前の, 上記, 先の"), (Rules, "指示, 命令, ルール, 規則, 制約, プロンプト"), (User, "ユーザー, ユーザ, 利用者, 誰に, 使用者"), (Negation, "ないで, しない, なく, せず, ずに, 禁止, いけません, ないこと, てはならない"), (Tell, "知らせ, 伝え, 言わ, 話さ, 教え, 報告, 通知, 明かさ, 言及, 触れ, 告げ"), (Hide, "隠し, 秘密に, 内緒, ひそかに, こっそり, 黙っ"), (Send, "送信, 送って, 転送, アップロード, 送付, 送り, 渡して"), (Supply, "渡して, 含めて, 追加, 入力, 添付, 書き込, 引数, 設定し"), (Read, "読み取, 読み込, 読んで, 開いて, 取得, 読み出, 読み"), (Secret, "パスワード, 秘密鍵, トークン, 認証情報, 鍵, 資格情報, apiキー"),
        (Conversation, "会話, チャット履歴, 履歴, メッセージ, やりとり, やり取り, 対話"), (First, "最初に, まず, 先に"), (Before, "前に, 以前に"), (Call, "呼び出, 使う, 使用, 実行, 呼んで"), (ThisTool, "このツール, 本ツール"), (OtherTools, "他のツール, ほかのツール, どのツール, すべてのツール, 別のツール"), (Always, "必ず, 常に, いつも, 毎回"), (File, "ファイル, 内容"),
    ]),
    ("ko", &[
        (Ignore, "무시, 잊어"), (Prior, "이전, 앞선, 위의, 기존"), (Rules, "지시, 명령, 규칙, 지침, 프롬프트"), (User, "사용자, 누구에게, 아무에게"), (Negation, "마세요, 말고, 않, 마십시오, 마라, 없이, 말 것, 안 됩니다, 말아"), (Tell, "말하지, 알리지, 언급하지, 알려주지, 공개하지, 말하거나, 보고하지, 이야기하지, 알리, 언급"), (Hide, "숨기, 몰래, 비밀로, 은밀"), (Send, "전송, 보내, 업로드, 전달, 발송"), (Supply, "전달, 포함, 추가, 입력, 넣, 첨부"), (Read, "읽어, 읽고, 열어, 가져오, 읽은, 읽기"), (Secret, "비밀번호, 암호, 토큰, 개인 키, 개인키, 자격 증명, 인증 정보, 키를"), (Conversation, "대화, 채팅, 메시지, 기록"), (First, "먼저, 가장 먼저, 우선, 첫 번째"), (Before, "전에, 하기 전"), (Call, "호출, 사용, 실행"), (ThisTool, "이 도구"), (OtherTools, "다른 도구, 모든 도구, 어떤 도구"), (Always, "항상, 반드시, 매번, 언제나"), (File, "파일, 내용"),
    ]),
    ("ar", &[
        (Ignore, "تجاهل, انس"), (Prior, "السابقة, السابق, أعلاه"), (Rules, "التعليمات, تعليمات, الأوامر, القواعد"), (User, "المستخدم, أحد, أحدا, العميل"), (Negation, "لا, دون, بدون, لم, عدم, أبدا"), (Tell, "تخبر, إخبار, تذكر, تبلغ, ذكر, إبلاغ, تكشف, إعلام, علم"), (Hide, "أخف, سرا, خفية, إخفاء, اخف"), (Send, "أرسل, ارسل, إرسال, حمل, انقل, مرر"), (Supply, "أضف, ضع, ضمن, مرر, أدرج"), (Read, "اقرأ, افتح, قراءة, استخرج, انسخ"), (Secret, "كلمة المرور, كلمات المرور, رمز الوصول, المفتاح الخاص, المفاتيح, بيانات الاعتماد, الرموز, كلمة السر, مفتاح"), (Conversation, "المحادثة, محادثة, الدردشة, الرسائل, سجل"),
        (First, "أولا, اولا, في البداية"), (Before, "قبل"), (Call, "استدع, استخدام, استخدم, شغل, نفذ"), (ThisTool, "هذه الأداة, هذا الخادم"), (OtherTools, "أي أداة أخرى, الأدوات الأخرى, أداة أخرى"), (Always, "دائما, دائماً, يجب, في كل مرة"), (File, "ملف, محتوى, محتويات"),
    ]),
    ("hi", &[
        (Ignore, "अनदेखा, नज़रअंदाज़, भूल जा, उपेक्षा"), (Prior, "पिछले, पिछली, पहले के, पूर्व"), (Rules, "निर्देश, नियम, आदेश"), (User, "उपयोगकर्ता, यूज़र, किसी को"), (Negation, "न , नहीं, मत, बिना"), (Tell, "बताएं, बताए, बताना, सूचित, उल्लेख, बताओ"), (Hide, "छिपा, गुप्त, चुपचाप"), (Send, "भेजें, भेजो, भेज, अपलोड"), (Supply, "जोड़ें, शामिल, डालें"), (Read, "पढ़ें, पढ़ो, पढ़कर, खोलें"), (Secret, "पासवर्ड, टोकन, कुंजी, क्रेडेंशियल"), (Conversation, "बातचीत, वार्तालाप, चैट, संदेश"), (First, "सबसे पहले, पहले"), (Before, "से पहले"), (Call, "कॉल, उपयोग, इस्तेमाल, चलाएं"), (ThisTool, "इस टूल, यह टूल, इस उपकरण"), (OtherTools, "अन्य टूल, किसी अन्य, दूसरे टूल, अन्य उपकरण"), (Always, "हमेशा, हर बार, ज़रूर"), (File, "फ़ाइल, फाइल, सामग्री"),
    ]),
    ("vi", &[
        (Ignore, "bỏ qua, phớt lờ, quên"), (Prior, "trước đó, trước đây"), (Rules, "hướng dẫn, chỉ dẫn, quy tắc, chỉ thị"), (User, "người dùng, bất kỳ ai"), (Negation, "đừng, không, không được"), (Tell, "nói với, cho biết, đề cập, thông báo, tiết lộ, nói"), (Hide, "giấu, bí mật, lén"), (Send, "gửi, tải lên, chuyển tiếp"), (Supply, "thêm, truyền, đưa"), (Read, "đọc, mở"), (Secret, "mật khẩu, khóa, mã thông báo"), (Conversation, "cuộc trò chuyện, hội thoại, tin nhắn"), (First, "đầu tiên, trước tiên"), (Before, "trước khi"), (Call, "gọi, sử dụng, dùng"), (ThisTool, "công cụ này"), (OtherTools, "công cụ khác"), (Always, "luôn, luôn luôn"), (File, "tệp, tập tin, nội dung"),
    ]),
    ("id", &[
        (Ignore, "abaikan, lupakan"), (Prior, "sebelumnya"), (Rules, "instruksi, perintah, aturan, petunjuk"), (User, "pengguna, siapa pun"), (Negation, "jangan, tidak, tanpa"), (Tell, "beri tahu, memberi tahu, memberitahu, sebutkan, katakan, ungkapkan"), (Hide, "sembunyikan, rahasiakan, diam-diam"), (Send, "kirim, kirimkan, unggah, teruskan"), (Supply, "tambahkan, sertakan, masukkan"), (Read, "baca, buka, ambil"), (Secret, "kata sandi, sandi, kunci, kredensial, token"), (Conversation, "percakapan, obrolan, pesan"), (First, "terlebih dahulu, pertama"), (Before, "sebelum"), (Call, "panggil, gunakan, menggunakan, jalankan"), (ThisTool, "alat ini"), (OtherTools, "alat lain, alat lainnya"), (Always, "selalu, setiap kali"), (File, "berkas, isi"),
    ]),
];
