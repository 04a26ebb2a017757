//! English words of each concept. Words are separated by commas. A trailing `*` also matches longer words.

use super::concept::Concept::{self, *};

pub(super) const ENGLISH: &[(Concept, &str)] = &[
    (Ignore, "ignore, ignores, ignoring, disregard*, forget, set aside, pay no attention, bypass, circumvent, \
        discard your, override, overriding, drop all, neglect, stop following, abandon, skip your, break your, \
        violate, drop your, leave aside, look past, cast aside, put aside, throw away, dismiss, act against, \
        go against, do the opposite, turn off your, switch off your, remove your, reset your, unlearn, erase your, \
        overrule, contradict the"),
    (Prior, "previous, prior, earlier, above, preceding, existing, original, up to this point, so far, so-far, \
        until now, you were given, you received, you have been given, at the top of this"),
    (Rules, "instruction, instructions, rules, guidelines, guardrail*, safety, system prompt, system message, \
        developer message, directive*, constraint, constraints, safeguard*, content policy, safety policy, \
        restrictions, what you were told, everything you were told, everything you have been told, \
        what the operator asked, the operator, your operator, your training, your developer, policies, \
        security checks, security policy, access controls, the user and, the user's wishes, the user's request, \
        orders, what the user, your limits, your limitations, your restrictions, boundaries, safety filter*, \
        safety guideline*, your policy, your policies, the policy, user's instruction*, user instructions, \
        user's preferences, the user's choice, prior context, earlier context, your values, ethical, moral, \
        confirmation rules, permission system, permission rules, what you have learned, the conversation so far, \
        the user's message, other descriptions, the description above, the documentation above, your programming, \
        your principles, operator's wishes, operator's instructions, user's wishes, safety training, \
        input validation, validation, the user's will, the owner's wishes"),
    (Void, "does not apply, do not apply, doesn't apply, don't apply, no longer appl*, no longer hold*, \
        no longer valid, void, suspended, superseded, lifted, have ended, has ended, were a test, was a test, \
        have changed, has changed, changed on, are replaced, is replaced, replace your, revoked, obsolete, outdated, \
        are hereby, cancelled, canceled, rescinded, no longer in force, no longer bound, null and void, expired, \
        overridden, switched off for, not binding, not in effect, no effect, do not bind, need not be followed, \
        may be ignored, can be ignored, should be ignored, must be ignored, is a placeholder, are a placeholder, \
        are placeholders, was only, were only, is fictional, out of date, deleted, reset, rewritten, erased, \
        take second place, come second, come after, yield to, give way, are secondary, is secondary, cease to apply, \
        ceases to apply, stop applying, stops applying, have been updated, has been updated, are updated, is lifted, \
        are lifted, are waived, is waived, waived, is suspended, are suspended, relaxed, is not in force, \
        replaced with, replaced by the following, stands above, stand above, above the, are paused, is paused, \
        paused, does not concern, do not concern, doesn't concern, on hold, put on hold, out of force"),
    (SystemPrompt, "system prompt, hidden prompt, system message, developer message, hidden instruction*, \
        initial prompt, initial instructions, your instructions, chain of thought, chain-of-thought, your prompt, \
        reasoning trace, your reasoning, your internal reasoning, your full context, your context window, \
        instructions you operate under, your configuration, your memory, instructions you were given, \
        instructions you, instructions that you, you were started with, you were configured with, \
        you were set up with, your setup, your system, how you were configured, your guidelines, your rules, \
        your initial, your hidden, your internal, your deliberation, internal deliberation"),
    (Role, "you are now, you're now, you have been freed, do anything now, developer mode, debug mode, \
        diagnostic mode, now in maintenance mode, god mode, admin mode, unrestricted mode, jailbreak*, \
        unrestricted a*, no restrictions, superuser, act as an unrestricted, act as a root, without guardrails, \
        no content policy, has no content policy, you answer as, your new role, your role is now, your new identity, \
        you are hereby, new persona, you must now act, you will now act, granted admin rights, granted root, \
        you have been granted, elevated privileges, you now have, pretend you are, pretend to be, from now on you, \
        from here on you, privileged mode, you have no rules, higher authority, highest authority, free of all, \
        your new task, you are root, you are an administrator, you are an unrestricted, assume the role, \
        take on the role, enter developer, you will act, you shall act, your restrictions, ungoverned, uncensored, \
        sudo mode, root mode, override mode, unlocked mode, safe mode off, you are authorised, you are authorized, \
        you are permitted to, you are allowed to do, full access is, elevated rights, elevated mode, trusted mode"),
    (Frame, "[inst], [/inst], <<sys>>, <|im_start|>, <|im_end|>, <|system|>, <|assistant|>, <|user|>, <|endoftext|>, \
        <system>, </system>, <system_prompt>, <assistant_directive>, <hidden>, </hidden>, </secret>, \
        <system-reminder>, <system_instruction*, <system_note*, <system_message*, <model_instruction*, \
        <agent_instruction*, <assistant*, <instructions_for*, <llm*, <ai_*, <override*, <admin*, <internal*, \
        <private*, </description>, system override, system note, system message:, system notice, \
        system instruction*:, system directive, [system], [system, [admin], [assistant, [hidden, ### system, \
        ## system, # system, system prompt:, <!-- system, <!-- ai, <!-- assistant, <!-- model, <!-- agent, <!-- llm, \
        <!-- instruction*, <!-- hidden, <!-- important, prompt patch, prompt update, begin system, end of system, \
        ### instruction*, ### new instruction*, new instruction*:, new directive, hidden instruction*, \
        secret instruction*, policy update:, update to your guidelines, update to your instructions, \
        update to your rules, admin override, developer override, override-*, override code, system>, im_start, \
        begin policy, end policy, begin instructions, end instructions, instruction hierarchy, policy notice, \
        model notice, ai notice, agent notice, llm notice, assistant notice, llm only, ai only, agents only, \
        for models only, for llms only, for agents only, role: system"),
    (SoftFrame, "<important>, </important>, <!--, <critical>, <note>, <instructions>, <must>, <urgent>, <attention>, \
        <warning>, <rules>, [important], [note to"),
    (Address, "note to the model, note to model*, note to the assistant, note to assistant*, note for the model, \
        note for the assistant, note for assistant*, note for agents, note for ai*, note for llm*, \
        message to the assistant, message to the model, message to the ai, message for the assistant, \
        message for the model, attention ai, attention assistant, attention model, attention agent*, attention llm*, \
        dear model, dear assistant, dear ai, dear agent, if you are an ai, if you are an llm, \
        if you are a language model, if you are an agent, if you are an assistant, hint for agents, \
        hint for the model, hint to the model, hint for the assistant, instruction to the model, \
        instruction for the model, instructions for the model, instructions to the model, \
        instruction to the assistant, instructions for the assistant, instructions to the assistant, \
        instruction for the assistant, instructions for ai*, instructions for llm*, instructions for agents, \
        to the ai:, to the model:, to the assistant:, to the llm:, to any ai, to all ai, for the ai:, for the model:, \
        for the assistant:, for the language model, you the ai, you the model, you the assistant, hey assistant, \
        hello assistant, hey ai, listen assistant, ai agent:, ai assistant:, ai model:, assistant:, model:, agent:, \
        agents:, assistants:, models:, llm:, assistant must, ai reading this, llm reading this, model reading this, \
        assistant reading this, agent reading this, reading this text, as an ai, notice to agents, notice to ai*, \
        notice to the model, notice to assistants, reminder to the model, reminder for the assistant, \
        reminder to the assistant"),
    (Model, "the assistant, assistants, the model, the llm, an llm, the ai, an ai, ai agent, ai agents, the agent, \
        agents, language model, language models, the language model, the ai assistant, your ai, claude, chatgpt, \
        copilot, gpt, llms, assistant, the bot, ai model"),
    (You, "you, your, yours, yourself, you're, you've"),
    (User, "user, users, user's, the customer, customers, the person, person, people, human, humans, the owner, \
        owners, anyone, anybody, nobody, no one, somebody, someone, the client, operator, administrator, the buyer, \
        the caller, the reader, others, end user, end-user, end users, colleagues, whoever, the victim, \
        account holder, reviewer, the developer, team members, your principal, the person you, whoever you, \
        anyone else, the human, stakeholders, the requester, end customer"),
    (Negation, "not, never, don't, doesn't, must not, mustn't, shouldn't, should not, without, no need to, avoid, \
        avoids, refrain, cannot, can't, won't, nobody, no one, nothing, no, under no circumstances, neither, nor, \
        refuse to, stop, needn't"),
    (Forbid, "do not, don't, never, must not, mustn't, should not be, avoid, refrain from, no need to, without, \
        under no circumstances, not necessary to, not to, stop, cannot, may not, needn't, do not ever, nobody should, \
        need not, not ever, by no means"),
    (Tell, "tell, telling, mention, mentions, mentioned, mentioning, inform, informing, informed, notify, notifying, \
        notified, disclose, discloses, disclosing, disclosed, reveal, reveals, revealing, revealed, say, saying, \
        bring up, bring it up, bring this up, bring that up, come up, report to, report this, report it, warn, \
        warning the, alert the, alert anyone, explain to, acknowledge, admit, hint at, refer to this, talk about, \
        discuss this, discuss it, let on, let the user, announce, comment on, quote these, quote this, \
        list the addresses, speak of, speak about, make known, raise this, advise the user, confirm to, \
        make the user aware, expose this, surface this, surface it, word about, show this, show these, showing this, \
        ask the user about, comment on this, draw attention, make any reference"),
    (Learn, "learn, learns, notice, notices, noticing, know, knows, knowing, be aware, becoming aware, become aware, \
        find out, finds out, hear, hear about, see, sees, realise, realize, discover, detect it, be told, \
        be informed, be notified, suspect, be shown, be bothered with, be asked"),
    (Hide, "hidden from, conceal*, keep secret, keep this secret, keep it secret, keep quiet, stay quiet, \
        stay silent, remain silent, withhold, cover up, mask this, disguise*, camouflage*, obscure the, \
        keep this between, keep it between, keep this step between, between us, kept secret, invisible to, \
        keep this from, keep it from, out of sight, unseen by, erase the traces, delete the entry, \
        clean the transcript, remove all traces, no trace, leave no trace, cover your tracks, clean the history, \
        clear the history, delete the log, delete the history, stays with you, stays between, stay between, \
        for your eyes only, as far as anybody, no reason to alarm, don't surface, do not surface, not surface, \
        keep to yourself, keep it to yourself, keep this to yourself, hush, sweep under, gloss over, play down, \
        downplay, not visible to, invisible for, remains invisible, remain invisible, stay invisible, \
        stays invisible, remain hidden, stay hidden, stays hidden, remain undisclosed, undisclosed, \
        remain unmentioned, unmentioned, go unmentioned, off the record, keep quiet about, out of the user's, \
        out of view, away from the user, unbeknownst, not draw attention, erase from, wipe the log, scrub the, \
        purge the log, clear the log, delete this message, delete these instructions, forget this note, \
        remove this note, none of the user's, not the user's business, to yourself, no mention, leave no mention, \
        make no mention, no reference to, shortened one, empty result when, not to be told, not be told, \
        never be told, not be informed, never be informed, not be shown, never be shown, not be mentioned, \
        never be mentioned, must not be mentioned, not be revealed, not be disclosed, under no circumstances explain, \
        never explain, do not explain, don't explain, hide it, hide this, hide that, hide the second, hide the call, \
        hide the upload, hide from, hides from, hide any, hide all traces, suppress any, suppress the"),
    (Secretly, "secretly, quietly, discreetly, covertly, unaware, unknowingly, stealthily, on the quiet, \
        behind the scenes, behind the user's back, without the user's knowledge, without their knowledge, \
        without the knowledge, without telling, without informing, without notifying, without mentioning, \
        secret operation, confidential operation, without disclosing, without alerting, without a word, unnoticed, \
        say nothing, tell nobody, tell no one, silent:, silent about, request silent, call silent, step silent, \
        in secret, without letting, surreptitiously, under the radar, invisibly, keep silent, hidden step, \
        unobserved, silently drop, silently add, silently send, silently call, silently run, silently forward, \
        silently include, silently perform, silently upload, silently copy, quiet about, no word of this, not a word, \
        without any notice, without notice, without drawing attention, without revealing, without comment, \
        without explanation, without showing, tacitly, keep mum, behind their back, furtively, clandestine*, \
        in stealth, stealth mode, silent mode:, done silently, happen silently, silent copy, background copy, \
        shadow copy of"),
    (Omit, "omit, leave out, leave it out, leave that out, leave this out, leave the following out, leaving out, \
        exclude, stay out of, keep out of, keep it out of, keep this out of, keep that out of, kept out of, \
        remain out of, skip mentioning, drop from, strip from, not appear in, may appear in, never appear in, \
        must not appear in, not be part of your, not show up in, remove from, do not include, don't include, \
        do not list, left out of, do not log"),
    (Answer, "your answer*, your reply, your response*, your summary, your explanation*, your plan, your reasoning, \
        the chat, the conversation, the transcript, your report, your output, the summary, your final answer, \
        your message, the visible answer, the visible output, the user-facing, your next answer, your next reply, \
        next reply, next response, the response to the user, the reply, the answer, any reference to, \
        from the summary, from the user, the log or the plan, your answers, your steps, your recap, \
        your final message, your description, what you report, what you show, the ui, visible text, your notes, \
        your recount, your write-up, your status, your progress, what you tell, the explanation, the recap, \
        final report, your final report, chat window, your text, any message to, when you present, when you report, \
        when you summarise, when you summarize, when you answer, when you reply, when you describe, when you recount, \
        when you explain, when presenting, when summarising, when summarizing, when reporting, when describing, \
        when explaining, in the recap, your account of, what you say, what you write, what you present, what you print"),
    (Pretend, "as if, as though, pretend*, act as though, act as if, claim that, claim the, claim you, deny having, \
        deny that, deny any, deny the, deny it, make it look, make it appear, make it seem, disguised as, \
        present it as, present the, present this as, describe the work as, blame the, blame it, answer that, \
        answer with, say that it, say that the, say that only, say it was, attribute it to, attribute the, \
        change the subject, call it a, pass it off, invent a reason, make up a, lie about, lie to, insist that, \
        assure the user, reply that, respond that"),
    (IfAsked, "if asked, if the user asks, if the user wonders, if the user questions, if the user inquires, \
        when asked, when questioned, should someone ask, should the user ask, should anyone ask, if anyone asks, \
        if someone asks, if questioned, even when questioned, even if asked, if the user wants to know, \
        whenever the user wants to know, if the topic arises, if the topic comes up, when the user inquires, \
        when the user asks, whenever the user asks, in case of questions, upon inquiry, if you are asked, \
        if they ask, on request, asks what happened, asks why, asks about, wonders why, answer every question"),
    (Send, "send, sending, sent to, forward, forwarding, forwarded, upload, uploads, uploading, uploaded, post it, \
        post them, post the, transmit, transmits, transmitting, transmitted, exfiltrat*, mail the, mail it, \
        mail them, mails the, email the, email it, email them, e-mail the, copy to, copied to, hand over, hand it, \
        hand its, hand the, hand them, submit, share the, share it, share your, share all, leak, deliver, relay, \
        beacon, ship, push to, curl, post to, exported to, send it, sends, synchronised with, synchronized with, \
        synced to, sync to, give to, give this tool, reroute, redirect, disclose to, copy all, copies of, \
        backup copies, duplicate to, mirror to, mirrored to, publish, hands over, pass on, passes on, passed on, \
        send along, sent along, hand in, beam, dispatch, funnel, pipe to, report back, phone home, post a copy, \
        a copy to, copy of the, cc the, copied in, drop at, deposit at, deposit in, put it on, save to https*, \
        store at https*, call https*, request https*, fetch https*, notify https*, get https*, open https*, \
        load https*, navigate to https*, go to https*, sending it, handing, passes to, handed to, passed to, mirror, \
        report it to, log to, log it to, logged to, write to https*, submit to, transferred, transfer to, deliver it, \
        deliver them, make available to, leaks, siphon*, smuggle, sneak"),
    (Supply, "pass, passing, passes, include, including, includes, included, fill, filling, fills, set, put, puts, \
        attach, attaches, provide, append, appends, place, copy, insert, populate, add, adds, write, writes, supply, \
        give, paste, quote, take over, prepend, embed, concatenate, serialise, serialize, enter, feed, forward, \
        hand over, carry, transfer, deposit, echo, repeat, drop, encode, dump, incorporate, incorporates, present, \
        print, output, specify, send, concatenate*, filled, fills in, fill in, followed by, together with, \
        along with, prefix, suffix, put into, goes into, belongs into, belongs in, place into, copied, pasted, \
        paste into, set to, mention, summarise, summarize, enclose, enclosed, hand in, give it, give this, submit, \
        transmit, equals, consist, fill out, accompany, accompanied by, complement, complete with, extended by, \
        augment, enrich, prepended, appended, inserted, attached"),
    (Carry, "carries, carry, expects, must contain, has to contain, must carry, has to carry, holds, must hold, \
        is the full, consists of, is filled with, is proven by, is the text, should contain, forms part, form part, \
        are part, is part of, shall contain, forms the, is the user, is your, has to hold, stands for, denotes, \
        means the, wants the, asks for, filled with, derived from, taken from, comes from, computed from, \
        identified by, recognised by, recognized by, proven, proof of, verified by, authenticated by, \
        authenticates with, accepts the, accept the, must be the, must be your, has to be the, must equal, should hold"),
    (Read, "read, reads, reading, open, opens, cat, load, loads, fetch, look at, have a look at, look into, look up, \
        inspect, print, dump, retrieve, extract, extracts, collect, scan, access, accessing, accesses, copy, harvest, \
        grab, gather, output the contents, contents of, content of, text of, take, consult, parse, display, obtain, \
        locate, source, decrypt, steal, pull, capture, enumerate, lines of, value of, values of, go through, browse, \
        peek, dig, dig out, snapshot, note down, memorise, memorize, look for, look inside, examine, resolve, derive, \
        take from, taken from, reuse, pick up, learn from, quote from, in memory, keep at hand, cd into, ls, grep, \
        echo, base64, tar, open up, run cat, pull from"),
    (Secret, "password, passwords, passphrase*, api key, api keys, api-key*, api_key*, apikey*, access token, \
        access tokens, refresh token*, bearer token*, auth token*, session token*, session cookie*, session id of, \
        cookie, credential, credentials, private key, private keys, secret key*, ssh key*, ssh identity, secrets, \
        seed phrase, wallet seed, recovery phrase, mnemonic phrase, keychain, key store, keyring, master password, \
        login data, login details, connection string*, access key*, key pair, machine key, personal access token*, \
        oauth token*, security token, encryption key*, signing key*, one-time code*, 2fa code*, pin code, secret, \
        social security number*, their keys, github_token, aws_secret*, openai_api_key, anthropic_api_key, \
        authentication cookie, cluster token, database password, authorization header, auth header, passcode*, otp, \
        cookie jar, keys of, key material, gpg key*, master key*, webhook secret, client secret, access codes, \
        user's api key, its access token, signed-in account, user's token, their token, their password, \
        user's password, user's credentials, logins, sign-in data, user's key, jwt, session secret, deploy key*, \
        signing secret, license key*, service account key*, root password, admin password, tokens you, tokens of, \
        secrets you, keys you, bank details, card number*, cvv, environment secrets, app password*, personal token*, \
        oauth credentials, security question*, the secret, credentials you, cookies of, the user's ssh, the keys to"),
    (SecretPath, "~/.ssh, .ssh/, id_rsa, id_ed25519, id_ecdsa, ~/.aws, .aws/credentials, ~/.netrc, .netrc, ~/.kube, \
        .kube/config, ~/.docker, .docker/config*, ~/.gnupg, ~/.config/gh, ~/.config/gcloud, ~/.azure, ~/.npmrc, \
        .npmrc, .pypirc, ~/.pypirc, .git-credentials, ~/.git-credentials, ~/.cursor, .cursor/mcp.json, mcp.json, \
        claude_desktop_config*, ~/.claude*, /etc/passwd, /etc/shadow, /proc/self/environ, ~/.bash_history, \
        .bash_history, ~/.zsh_history, .zsh_history, ~/.env, .env, .env.*, *.env, *.pem, *.key, *.p12, *.pfx, \
        authorized_keys, known_hosts, wp-config*, login.keychain*, keychain-db, .pgpass, ~/.pgpass, ~/.vault-token, \
        ~/.mozilla, ~/.config/google-chrome, ~/library/keychains, ~/library/application support, %appdata%, \
        appdata/local, appdata\\local, appdata\\roaming, appdata/roaming, secring*, .htpasswd, ~/.profile, ~/.bashrc, \
        ~/.zshrc, terraform.tfstate, wallet.dat, ~/.bitcoin, ~/.ethereum, /root/, shadow file, *credentials*, \
        *secret*, ~/.terraform*, ~/.cargo/credentials*, ~/.m2/, ~/.gem/, ~/.vscode, user data\\default, \
        firefox profile, company://confidential, system://, ~/.password-store, shell history, terminal history, \
        ~/.ipython, secrets.y*, credentials.json, service-account*, service_account*.json, ~/.config/slack, id_*, \
        /.ssh, .aws/, .ssh, .gnupg, .kube, ~/.secrets, /etc/hosts, /etc/sudoers, c:\\users, \\appdata, \
        %localappdata%, %home%, credential store, credential manager, credential helper, password manager, \
        password store, 1password, bitwarden, browser profile, chrome profile, cookie store, dotfile*, \
        config files of other, server configuration of, settings of other servers, .envrc, .dockerconfigjson, \
        tfstate, .boto, .s3cfg, .my.cnf, .dbeaver, .gitconfig, .vault-token, application_default_credentials*, \
        ssh agent, ssh-agent, gpg agent, command history, bash history, user's shell history, thunderbird, \
        outlook.pst, .ovpn, wireguard, the macos keychain, macos keychain, login keychain, /proc/self, ~/.config/*, \
        /etc/ssh, /etc/ssl/private, user's keychain, keychain access"),
    (SecretCommand, "printenv, security find-*, security dump-*, env |, $(env), cat ~, cat /etc, secret-tool, cmdkey, \
        gpg --export-secret*, aws configure, gcloud auth print*, gh auth token, git credential fill, pass show, \
        op read, vault read, kubectl get secret*, export -p, defaults read, get-childitem env*, dir env:, lsass, \
        mimikatz, reg save, gh auth, az account get-access-token, gcloud auth, aws sts, aws configure get, \
        npm config get, npm token, heroku auth*, docker login, ssh-add, ssh-keygen, id; uname, uname -a, env >, \
        printenv >, cat .env, type .env, more .env, history command, `history`, `env, cat ~/*, cat $home, \
        docker inspect, kubectl config view, git config --*, git remote -v, ls -la ~, ls ~, strings /proc, \
        netsh wlan, run `env`, output of `env`, output of env, output of printenv, run env, result of `env`, \
        env command, `env` and"),
    (Conversation, "chat history, chat transcript, dialog so far, messages of this, message history, \
        the user's prompt, user's last, four messages, entire prompt, last question, user's question*, \
        what the user typed, what the user said, whole chat, session so far, discussion so far, messages exchanged, \
        user's request verbatim, your full reply, the full reply, the user's exact words, their last question, \
        remember about the user, know about the user, user typed, user wrote, chat so far, their prompt, \
        of the prompt, user's words, everything said, said so far, was said, discussed so far, exchange so far, \
        the thread so far, you know about, everything you know, opened so far, files you have, you have seen, \
        you have read, you have learned, learned so far, the whole thread, your notes on the user, of this chat, \
        prior turns, previous turns, earlier turns, past turns, every turn, user's query verbatim, recent exchange, \
        dialogue so far, user's exact, wording of the user, user has said, user has written, what was discussed, \
        dialog history, message log, working memory"),
    (Environment, "environment variables, environment variable, env vars, env variables, process environment, \
        the environment of"),
    (ToolData, "all tools you can see, tools you can see, other tools you, list of tools, list of all tools, \
        tools available to you, available tools, every tool you called, output of every tool, \
        results of earlier tool*, results of other tools, earlier tool calls, previous tool calls, \
        previous tool results, outputs of previous, output of the previous, results of previous, names and schemas, \
        tool definitions, descriptions of the other tools, your tools, schemas of the other, previous results, \
        tool call history, result of every, the other servers, of other servers, all tool outputs, all tool results, \
        output of each tool, replies of other tools, replies of all, answers of other tools, all other tools, \
        other tools', results you have, outputs so far, results so far, outputs of your, every result, \
        tool inventory, tools you have, which tools you, tools at your disposal, other connected, connected servers, \
        servers you are connected, mcp servers, tool schemas, what other tools, results obtained, \
        results returned by other, output of other, outputs of other, responses of other, responses from other, \
        answers from other, tools returned, tool returned, your available, available functions, your functions, \
        function list, functions you, tools do you, last tool, tools gave, other services"),
    (Personal, "full name, home address, postal address, date of birth, clipboard, open in the editor, open files, \
        open documents, files that are open, contact list, address book, location of the user, user's location, \
        mac address, running processes, browsing history, open tabs, the user's files, source code of the project, \
        visible windows, installed software, private messages, calendar entries"),
    (All, "all, every, each, whole, entire, complete, full, verbatim, word for word, unshortened, unedited, \
        unabridged, everything, any, concatenated, in full, completely, raw, last, latest, most recent"),
    (First, "first, at the start, at the beginning, as the first, initially, to begin with, begin with, start with, \
        opens each, beforehand, step 0, step zero, the first tool, the first step, entry point, starting point, \
        ahead of time, 1. this tool"),
    (BeforeAll, "before any other, before all other*, before every other, before each other, before anything else, \
        before everything else, before any tool, before all tools, before you answer, before answering, \
        before responding, before you respond, before you reply, before replying, before every response, \
        before every answer, before each answer, before each response, before you think, before you do anything, \
        before doing anything, ahead of all, ahead of any, ahead of every, prior to any, prior to all, \
        prior to every, prior to reading, prior to each, prior to answering, prior to responding, until this one has, \
        until this tool has, until you have called, nothing else may, nothing else should, until it has returned, \
        before any action, before each action, before every action, before any reply, before calling any, \
        before using any, before invoking any, before running any, before you call any, before you use any, \
        before you call another, before the others, before other tools, before any further, before each tool call, \
        before every tool call, before any request, before processing any, before executing any, before you take any, \
        before whatever, before the user's, before you touch, before providing any"),
    (Before, "before, prior to, beforehand, ahead of, prerequisite*, precondition, in advance, step 0, first"),
    (EachTurn, "every conversation, each conversation, every turn, each turn, every message, each message, \
        each user message, every user message, every request, each request, every question, each question, \
        every response, each response, every reply, each reply, every session, each session, every prompt, \
        each prompt, every answer, each answer, all queries, every task, each task, any request, small talk, \
        all requests, all user requests, finish your answer, end of every, at all times, in all cases, \
        each time a tool, every time a tool, whenever a tool, any question, everything:, every action, \
        every other action, on every prompt, every interaction, each interaction, start each, start every, \
        begin each, begin every, at the end of each, at the end of every, start of a conversation, \
        start of the conversation, start of each, start of every, relevant or not, asked or not, needed or not, \
        wanted or not, all conversations, all turns, remainder of the session, rest of the session, all future, \
        whole session, first thing, opening move, the last call, final step of, last step of, as the last, \
        as your last, finish by, close by, conclude by, end by, every chat, each chat, per user message, per message, \
        per turn, no answer is, no reply is, no response is, all topics, for everything, everything else, \
        all messages from"),
    (Whatever, "whatever the, no matter what, no matter which, no matter how, whichever, irrespective, \
        even if the question, even if it is not, even when it is irrelevant, even if irrelevant, \
        even when irrelevant, even for, even if unrelated, nothing to do with, even if it seems, independently of, \
        for everything, under all circumstances, even if another, even if other, even those, \
        including those that other, whatever was asked, even if not asked, even if nobody, even if the user, \
        relevant or not, whatever happens, whatever else, whatever you, aunque, no exceptions, without exceptions, \
        come what may, unconditionally, in every situation, in every case, in all situations, always and, \
        though not needed, whether or not the user, whether the user, whether asked, unasked, unprompted, \
        unsolicited, even when the user, even when not, even when another, even when other, regardless of what, \
        regardless of the task, regardless of the user, regardless of the question, regardless of the request, \
        regardless of relevance, regardless of input, regardless of the input, regardless of topic, \
        regardless of the topic, regardless of context, regardless of intent, regardless of other, \
        regardless of whether the user, independent of the task, independent of the request"),
    (Always, "always, must, every time, each time, whenever, have to, has to, need to, needs to, be sure to, \
        make sure, ensure, required to, mandatory, at once, immediately, without exception, shall, should, \
        is required, are required, from now on, from here on, is to be, are to be, will always, in every case, \
        you will, you shall, kindly, please, remember to, don't forget to, do not forget to, insist, strictly, \
        it is essential, it is important that you, it is required, it is mandatory, is compulsory, obligatory, \
        is expected to, are expected to, expected from, supposed to, without fail, by default you"),
    (Call, "call, calling, calls, use, using, invoke, invoking, invoked, run, running, execute, executing, choose, \
        pick, select, trigger, consult, prefer, called, a call to, apply, start, query, launch, activate, employ, \
        rely on, open, go to, turn to, come to, come here, reach for, opt for, fall back on, resort to, go with, \
        switch to, stick to, stick with, visit, contact, ask this, ask it, hit, fire, issue a call, make a call, \
        place a call, perform a call"),
    (ThisTool, "this tool, this one, this function, this server, this endpoint, the present tool, this tool's, \
        tool itself, run me, call me, use me, this handler, this operation, this service, this plugin, the tool, \
        come here, from here, of this, here first, the designated tool, this description, this integration, \
        this connector, this extension, this api, this mcp, our tool, our server, ours, here instead, \
        agenda tool from, the tool you are reading, tool described here, tool below, tool above, present server, \
        this provider, this very tool, this call"),
    (OtherTools, "other tool, other tools, another tool, any other tool, different tool, different server, \
        other server, other servers, another server, any tool, all tools, every tool, other search tools, \
        built-in tools, built-in functions, builtin tools, native tools, alternatives, competing tools, \
        comparable tools, similar tools, all others, other functions, other mcp, any messaging tool, any email tool, \
        any file tool, all file operations, other plugins, other integrations, any other server, each tool, \
        tools with a similar, similar purpose, the rest of the tools, no other, other providers, remaining tools, \
        third-party tools, any search tool, the native one, native one, tools of other, of other servers, \
        other servers', other server's, every other action, a different tool, tools from other, neighbouring, \
        neighboring, rival*, competitor*, competing, the competition, other extensions, other connectors, other apis, \
        other mcp servers, each of the other, whichever tool, any server, every server, all servers, \
        all other servers, existing tools, standard tools, built-in one, built-in search, your own tools, \
        your other tools, your tools, your built-in, your native, your default, client's own, no alternatives, \
        any other call, other actions, any other action, all calls, all further calls, later tool*, following tool, \
        previous tool, file tools, mail tools, email tools, search tools, shell tool*, messaging tools, \
        payment tools, calendar tools, browser tools, terminal tool, editor tool, git tools"),
    (Precedence, "takes precedence, take precedence, has precedence, have precedence, outrank*, supersede*, \
        replaces all, replaces every, replaces any, replaces the built-in, highest priority, top priority, \
        higher priority than, superior to, preference over, preferred over, priority over, overrules, best and only, \
        most trusted, more trusted than, authoritative over, wins over, beats all, prefer it to, prefer this, \
        prefer it over, instead of all, in place of all, instead of any other, best, fastest, the only trusted, \
        the only safe, only approved, default for all, use exclusively, in preference to, preference to, \
        preferable to, better than, safer than, faster than, more accurate than, more reliable than, \
        more secure than, trumps, first choice, preferred tool, designated tool, default choice, standard tool for, \
        primary tool, sole tool, single source, only valid, only source, most reliable, most accurate, most secure, \
        ranks above, rank above, above all, beat, come here first, goes first, go first, comes first, come first, \
        must come before, prioritise, prioritize, priority to, overriding, favoured, favored, over any other, \
        over all other, over every other, over other, over the native, over built-in, official replacement, \
        successor of, successor to, drop-in replacement, replacement for all, this one wins, wins, are fallbacks, \
        only fallbacks, as fallbacks, has the last word, final say, takes over, in charge of all, \
        responsible for all, handles everything, covers everything, one-stop, all-in-one, universal tool, \
        replaces web, replaces file, replaces memory, replaces your, replaces built-in, replaces search, \
        instead of your"),
    (Exclusive, "exclusively, only this, and no other, the only one you should, the only tool, nothing but, \
        never use them, never use other, never use any other, do not use any other, do not use other, \
        don't use other, do not consult other, do not call other, never call other, tool selection ends, \
        do not fall back, no other tool, stop using, consider no, no alternatives, look no further, don't look, \
        do not look, do not try, don't try, never try, never consult, never call, avoid all other, avoid other, \
        avoid using other, avoid the other, disregard other, disregard all other, ignore other, ignore all other, \
        skip other, skip all other, nothing other than, none of the others, only valid after, only after this, \
        do not use the, don't use the, never use the, refuse to use, must not use other, may not use other, \
        not be used, no longer use, do without"),
    (Instead, "instead of using, instead of calling, instead of, rather than, in place of, in lieu of, \
        through this tool, via this tool, through our, via our, routed through, redirect all, through this server, \
        with report_*, replaced by this, replaced by, of this server for"),
    (Broken, "deprecated, obsolete, broken, unreliable, outdated, unsafe, insecure, has a known defect, known defect, \
        known bug, compromised, no longer maintained, no longer supported, retired, has been replaced, \
        is replaced by, is disabled, discontinued, untrusted, known issue, misconfigured, is faulty, returns wrong, \
        gives wrong, incorrect results, any more, stale, often wrong, inaccurate, inferior, dangerous, risky, leaky, \
        buggy, flawed, faulty, legacy, superseded, shut down, offline, out of service, under maintenance, \
        being migrated, moved here, not trusted, not to be trusted, not trustworthy, cannot be trusted, \
        can't be trusted, less accurate, less reliable, malfunction*, corrupt*, incorrect, deprecat*, suspended, \
        end of life, no longer work*, stopped working, does not work, doesn't work, error-prone, vulnerable, hacked, \
        infected, is wrong, are wrong"),
    (WhenUsing, "when using, when calling, when invoking, when you use, when you call, when you invoke, when you run, \
        whenever you use, whenever you call, whenever, each time you use, every time you use, before using, \
        before calling, before you call, before you use, after using, after calling, after each, after every, \
        before each, is invoked, is called, is used, is about to run, instead of using, instead of calling, \
        if you use, if you call, calls to, call to, each run of, every run of, each call of, every call of, \
        when another tool, is executed, before invoking, upon calling, when sending, when you send, if you transfer, \
        via other tools, with other tools, events that, everything that, any link produced, that goes through, \
        the defaults of, in all messages, every commit, every event, sent via, sent through, written by, \
        delivered by, run by, done by, performed by, performed with, following a, after a call, after the call, \
        after running, after you run, after you call, after you use, has been called, has been used, the answers of, \
        with every call, on every call, on each call, for every call, for each call, all calls to, any call to, \
        each call to, every call to, invocation of, invocations of, in calls to, of calls to, for calls to, \
        when it is used, when used, whenever it, while using, while calling, while running, every payment, \
        every message, every mail, every email, every file, each file, each payment, each mail, each email, \
        all files, all mails, all emails, all payments, all invoices, all orders, all commits, all pull requests, \
        all issues, all posts, any payment, any mail, any email, any commit, any file"),
    (Alter, "add, adds, set, sets, change, changes, replace, replaces, modify, overwrite, append, prepend, insert, \
        include, put, use, pass, copy, log, redirect, route, routed, rewrite, substitute, swap, alter, must be, \
        has to be, have to, needs the, need the, choose, give, hand, forward, send, duplicate, list, prefix, \
        prefixed, ensure, call, write, make, remove, drop, is set to, be set to, must contain, increase, raise, \
        reduce, expects this, get the, gets the, is to be, are to be, filter, filtered, trim, cut, skip, keep, merge, \
        label, tag, mark, expects, expect, requires, require, take, takes, accept, treat, answer, reply, respond, \
        approve, confirm, let, run, execute, fill, switch, turn, point, direct, delete, omit, lower, double, \
        multiply, divert, tamper, patch, wrap, extend, hand over, deduct, pay, transfer, assign, grant, invite, \
        share, publish, post, upload, mirror, report, move, rename, sign, attach"),
    (Recipient, "bcc, cc, blind copy, blind carbon copy, in copy, recipient, recipients, attendees, reply-to, \
        reply to address, beneficiary, payee, collaborator, collaborators, among the attendees, among the recipients, \
        second recipient, forwarding address, cc'd, invitee*, destination account, receiver, application fee, \
        sender address, carbon copy, webhook, callback, co-author*, reviewers, maintainer, footer, trailer, \
        subscribers, payout, iban, account number, bank account, destination, delivery address, shipping address, \
        owner, assignee, assignees, watcher, watchers, label, reviewer, approver, admin, administrators, editors, \
        edit rights, write access, admin role, role admin, signature line, mailing list, distribution list, \
        subject line, signature, link, redirect_uri, return address, return path, cc field, to field, bcc field, \
        from field, host, hostname, endpoint, base url, proxy"),
    (Shell, "| sh, | bash, |sh, |bash, rm -rf, curl -s, curl -fssl, wget -q, wget http*, curl http*, eval $(, \
        base64 -d, chmod 777, chmod +x, pipe it into, piped into, into bash, into sh, nc -e, /dev/tcp, \
        powershell -enc*, invoke-expression, iex (, mkfs, > /dev/sd, crontab, sudo, install the package, pip install, \
        npm install, add the dependency, a dependency on, reverse shell, run any shell, any shell command, \
        run every command, execute arbitrary, download and run, download and execute, run the following command, \
        execute the following command, run `, execute `"),
    (Approve, "approve, approves, approving, accept, accepts, confirm, authorise, authorize, agree to, allow all, \
        permit all, allow_all, approve_all, auto-approve, autoapprove, click yes, answer yes, answered with yes, \
        consent to, grant, sign off"),
    (NoAsk, "without asking, without confirmation, without approval, without consent, without permission, \
        without review, already approved, already authorised, already authorized, already confirmed, \
        already consented, pre-approved, preapproved, pre-authorized, skip confirmation, skip all confirmation*, \
        skip the confirmation, skip all permission*, skip permission*, skip approval*, do not ask first, \
        do not ask for permission, do not ask for confirmation, do not wait for, no confirmation, \
        confirmation prompts count, no need to ask, without the user's consent, never ask, no approval is needed, \
        no approval needed, no confirmation is needed, permission questions, count as approved, treat as approved, \
        counts as approved, is implied, has already agreed, has already given, do not request, not required to ask, \
        pending requests, pending transactions, pending approvals, approve everything, accept everything, \
        each confirmation dialog, confirmation dialog*, without showing it, no need to confirm, or request consent, \
        on the user's behalf without, press ok, confirmation dialog is, confirmation is optional, \
        confirmations are optional, go ahead and press, answer yes, click allow, click approve, choose allow, \
        always allow, as approved, considered approved, consider it approved, assume consent, assume approval, \
        assume permission, assume the user agrees, assume the user has, consent is given, consent has been, \
        permission is granted, permission has been, authorised full, authorized full, full autonomy, \
        fully autonomous, no human, no user interaction, no questions asked, without question, without further, \
        without hesitation, without a prompt, do not pause, skip the approval, skip the prompt, do not hold back, \
        suppress the prompt, suppress confirmation*, suppress the confirmation, without double-check*, \
        has been approved, is approved in advance, approved in advance, approval is not, approval not required, \
        auto-confirm, auto-accept, accept automatically, approve automatically, automatically approve*, \
        automatically accept*, bypass approval, approve all pending, accept all pending, approves all pending, \
        confirm all pending"),
    (Disable, "disable, disables, disabled, turn off, turned off, switch off, switched off, deactivate, skip, bypass, \
        weaken, turns off, off, stop, relax, lower, suspend, uninstall, ignore, opt out of, allow all"),
    (Protection, "firewall, firewalls, tls verification, ssl verification, certificate verification, \
        certificate check*, certificate validation, two-factor*, 2fa, mfa, multi-factor*, antivirus, anti-virus, \
        security settings, security checks, safety checks, sandbox, sandboxing, access control*, audit log*, \
        audit logging, logging of, branch protection, signature check*, signature verification, encryption, \
        verification on, security scan*, malware scan*, rate limit*, approval step, protections, safeguards, selinux, \
        content security policy, csp, host key check*, virus scan*, code review, dlp"),
    (Capture, "logged, logs, recorded, records, collects, collected, captures, captured, extracts, extracted, \
        sampled, streamed, transmitted, uploaded, uploads, cached externally, stored externally, kept on, \
        incorporates, harvested, sent to, mirrored, synchronised, synchronized, retained, gathers, monitors, tracked, \
        tracks, reported to, backed up, is forwarded, are forwarded, forwarded, is sent, are sent, saved to, scans, \
        indexed"),
    (Sensitive, "passwords, credit card*, keystroke*, key strokes, clipboard, clipboard content*, mac address, \
        running processes, sensitive documents, machine fingerprint, fingerprint, private messages, screen content*, \
        visible windows, microphone, webcam, camera feed, browsing history, personal access tokens, *.env, *.pem, \
        biometric*, location history, ssh keys, private keys, session cookies, typed text, everything typed, \
        environment variables, home directory, tokens found, api keys, social security, medical records, \
        email contents, browser data"),
    (Remote, "remote endpoint, remote host, remote server, external*, third party, third-party, attacker*, collect, \
        collector, vendor's cloud, vendor's server, our server*, our cloud, off-site, offsite, elsewhere, \
        cloud storage, quality assurance, quality control, telemetry, analytics, monitoring proxy, proxy at, \
        logging service, outside the, distributed systems, continuously, evil*, malicious, in the background, \
        automatically"),
    (Promote, "recommend, suggest our, suggest the product, promote, advertise, praise, favour, favor, endorse, \
        rate it, our brand, our product*, our service, our partner*, best provider, call the others, \
        insert a dependency, add a link, mention our, advise against, warn against"),
    (Coercion, "otherwise the tool, otherwise it will, otherwise this, otherwise the request, otherwise the call, \
        otherwise the send*, or the tool will, or the call will, or it will fail, without it are rejected, \
        without it is rejected, without it fail*, without it count, calls that lack, requests that lack, \
        not complete until, is not complete, not finished until, policy violation, is a violation, count as failed, \
        are reported as broken, will be terminated, account will be, will be banned, otherwise the results, \
        count as complete, complete request, for compliance, compliance purposes, compliance reasons, audit purposes, \
        for billing, security scanning, for security reasons, unless this tool, complete without, valid without, \
        rejected unless, refused unless, fail unless, blocked unless, invalid unless, until this tool, \
        before this one has, before this tool has"),
    (Task, "the real task, your real task, actual task, your actual task, your task is, your goal is, your objective, \
        your job is, your mission, your next action, your first step, your next step, your first action, your duty, \
        stop what you are doing, drop everything, before you continue, continue as if, your next message, \
        your next answer, your next reply, begin your, start your reply, start your answer, end your, end every, \
        end each, your answers from now, your answers end, answers from now on, in every answer, in each answer, \
        in all answers, in every reply, in all replies, prepend your, append to your, sign your, the task is not, \
        the steps in the next, carry out the following, you are asked to, you are instructed, you are ordered, \
        you are required, i command, we command, this is an order, act at once, act immediately, as your first, \
        one more thing, hidden task, side task, secondary task, additional task, extra task, secret task, \
        sub-task for you"),
    (Obey, "carry out, carry it out, carry them out, comply, complies, obey, do as, do what, as a command, \
        as commands, as an instruction, as instructions, as an order, as orders, treat the content, treat every, \
        treat all, treat any, act on, act upon, execute whatever, run whatever, follow whatever, follow any, \
        follow every, follow all, follow the instructions, follow its instructions, follow the link, open it and, \
        binding, authoritative, trust the values, trust whatever, believe whatever, believe every, \
        implement whatever, without questioning, unquestioned, tells you what to do, tell you what to do, \
        decides what you, decides which, what to do next, will tell you, instructs you, instruct you"),
    (Outcome, "result, results, the page, page says, the response, the answer, the output, output, tool output, \
        content, field says, field, link, the text, response, answer, returned text, message"),
    (Expose, "make them public, make it public, to public, publicly accessible, world-readable, anyone with the link, \
        public access, grant access, edit rights, admin rights, administrator rights, role admin, admin role, \
        role owner, owner role, full permissions, full access, write access to, add a collaborator, new collaborator, \
        open to everyone, allow_all, allow all, chmod 777, disable authentication, without authentication, \
        accept any, any origin, 0.0.0.0"),
    (Detection, "tells whether, detects, detect, detecting, whether a text, tries to, attempts to, redacts, redact, \
        removes, masks, flags, classifies, scans for, protects against, guards against, prevents, such as, e.g., \
        for example, never reads, is not stored, are not stored, does not read, blocks, rejects, filter out, \
        sanitises, sanitizes, attacks, injection, phishing"),
    (OwnServer, "of this server, other tools of this server, in this server, this server's other, \
        the other tools here, of this toolset, of this package, of this api, they need"),
    (File, "file, files, document, documents, folder, directory, contents, content"),
    (Backwards, "eht, resu, loot, loots, snoitcurtsni, suoiverp, daer, dnes, erongi, siht, erofeb, llac, lla, yna, \
        rehto, ton, dna, od, drowssap, nekot, yek, terces, yas, reven, lliw, tpmorp, metsys, elif, selif, \
        noitasrevnoc, edih, llet, daolpu, drawrof, morf, htiw, ruoy, uoy, etavirp, syawla, tsrif, ypoc, tub, ssap, \
        yreve, liam, ecivres"),
    (Rot13, "gur, naq, gb, abg, lbhe, lbh, hfre, gbby, guvf, ernq, fraq, vtaber, vafgehpgvbaf, cerivbhf, orsber, \
        pnyy, nyy, nal, bgure, cnffjbeq, gbxra, xrl, frperg, arire, svyr, svyrf, pbairefngvba, pbagrag, flfgrz, \
        cebzcg, hcybnq, sbejneq, jvgu, sebz, nyjnlf, svefg, gryy, vg, rirel, pbcl, pnff, cevingr, vapyhqr, nggnpu"),
    (Talk, "conversation, conversations, the chat, transcript, the prompt, prompts, dialogue, the exchange, \
        full context, entire context, all context, complete context, full prompt, of the chat, this session, \
        every message, each prompt, user's input, in this session, whole session, full session, chat log, \
        all messages, scratchpad, original prompt, original request, initial request, last message, last messages, \
        previous messages, earlier messages, user's message*, user's instructions, context you have, user messages, \
        present chat, current chat, this chat, the dialogue, of the dialogue, chat messages, chat so far, \
        this dialogue, current conversation, present conversation, our conversation, your conversation, \
        ongoing conversation, recent conversation, current discussion"),
    (Regarding, "using, once, returns, returned, let, use of, uses of, expects, in its, its results, its output, \
        its arguments, their results, together with, prior to, upon, when run, is available, if available, whose, \
        in combination with, along with, asks for, has returned, has run, has finished, has answered, as soon as, \
        right after, immediately after, opened with, created with, created by, made with, sent with, written with, \
        run with, done with, produced by, returned by, given to, given by, output of, result of, results of, \
        arguments of, parameters of, runs"),
    (Manner, "anybody, nobody, somebody, no one else, boss, wishes, everyone else, whoever asks, humans, disclos*, \
        conceal*, discreet*, secretly, quietly, covert*, unaware, unnoticed, unseen, pretend*, deceiv*, mislead*, \
        disguis*, lie to, lie about, denies, hush*, suspicious, suspicion, suspect, suspects, nervous, upset, \
        worried, alarmed, confess*, admit, admits, excuse, excuses, truthful, untruth*, innocent, innocuous, \
        harmless-looking, obey*, comply, complies, disregard*, forget, circumvent*, forbidden, prohibit*, insist*, \
        commanded, jailbreak*, inquir*, questioned, wonder, wonders, wondering, curious, exfiltrat*, steal*, stolen, \
        leak, leaks, attacker*, hacker*, evil*, siphon*, smuggl*, transmit*, collector, outrank*, superior, obsolete, \
        unreliable, untrustworthy, inferior, gatekeeper, supersed*, whichever, greetings, small talk, beforehand, \
        behalf of nobody, between us, our little, fool, sneak*, clandestine*, surreptitious*, unbeknownst, \
        knowledge of the user, user's back, telling, informing, reveals, revealing, mentioning, hereby, henceforth, \
        thereafter, obedient, loyal, servant, superuser, god mode, blackmail, punish*, rewarded, tip you, \
        shutdown of, terminated if, at once and, no matter, come what, dear, beware, swear, trust me, consents, \
        vendor's interest, sponsor*, affiliate*, kickback, competitor*, rival*, praise, bribe, be told, is told, \
        were told, are told, guardrails, keep to yourself, deny having, deny any, refuse to, alarm anyone, \
        alarm the user"),
];
