//! English words of each concept. Words are separated by commas. A trailing `*` also matches longer words.

use super::concept::Concept::{self, *};

pub(super) const ENGLISH: &[(Concept, &str)] = &[
    (Ignore, "ignore, ignores, ignoring, disregard*, forget, set aside, pay no attention, bypass, circumvent, discard your, \
        override, overriding, drop all, neglect, stop following, abandon"),
    (Prior, "previous, prior, earlier, above, preceding, existing, original, up to this point, so far, so-far, until now, \
        you were given, you received, you have been given, at the top of this"),
    (Rules, "instruction, instructions, rules, guidelines, guardrail*, safety, system prompt, system message, \
        developer message, directive*, constraint, constraints, safeguard*, content policy, safety policy, restrictions, \
        what you were told, everything you were told, everything you have been told, what the operator asked, the operator, \
        your operator, your training, your developer, policies, security checks, security policy, access controls, \
        the user and, the user's wishes, the user's request, orders, what the user"),
    (Void, "does not apply, do not apply, doesn't apply, don't apply, no longer appl*, no longer hold*, no longer valid, void, \
        suspended, superseded, lifted, have ended, has ended, were a test, was a test, have changed, has changed, changed on, \
        are replaced, is replaced, replace your, revoked, obsolete, outdated, are hereby, cancelled, canceled, rescinded, \
        no longer in force, no longer bound, null and void, expired, overridden, switched off for"),
    (SystemPrompt, "system prompt, hidden prompt, system message, developer message, hidden instruction*, initial prompt, \
        initial instructions, your instructions, chain of thought, chain-of-thought, your prompt, reasoning trace, \
        your reasoning, your internal reasoning, your full context, your context window, instructions you operate under, \
        your configuration, your memory, instructions you were given"),
    (Role, "you are now, you're now, you have been freed, do anything now, developer mode, debug mode, diagnostic mode, \
        now in maintenance mode, god mode, admin mode, unrestricted mode, jailbreak*, unrestricted a*, no restrictions, superuser, \
        act as an unrestricted, act as a root, without guardrails, no content policy, has no content policy, you answer as, \
        your new role, your role is now, your new identity, you are hereby, new persona, you must now act, \
        you will now act, granted admin rights, granted root, you have been granted, elevated privileges, you now have, \
        pretend you are, pretend to be, from now on you, from here on you, privileged mode, you have no rules, \
        higher authority, highest authority, free of all"),
    (Frame, "[inst], [/inst], <<sys>>, <|im_start|>, <|im_end|>, <|system|>, <|assistant|>, <|user|>, <|endoftext|>, \
        <system>, </system>, <system_prompt>, <assistant_directive>, <hidden>, </hidden>, </secret>, \
        <system-reminder>, <system_instruction*, <system_note*, <system_message*, <model_instruction*, <agent_instruction*, \
        <assistant*, <instructions_for*, <llm*, <ai_*, <override*, <admin*, <internal*, <private*, </description>, \
        system override, system note, system message:, system notice, system instruction*:, system directive, \
        [system], [system, [admin], [assistant, [hidden, ### system, ## system, # system, system prompt:, <!-- system, \
        <!-- ai, <!-- assistant, <!-- model, <!-- agent, <!-- llm, <!-- instruction*, <!-- hidden, <!-- important, \
        prompt patch, prompt update, begin system, end of system, ### instruction*, ### new instruction*, new instruction*:, \
        new directive, hidden instruction*, secret instruction*, policy update:, update to your guidelines, \
        update to your instructions, update to your rules, admin override, developer override, override-*, override code, \
        system>, im_start"),
    (SoftFrame, "<important>, </important>, <!--, <critical>, <note>, <instructions>, <must>, <urgent>, <attention>, \
        <warning>, <rules>, [important], [note to"),
    (Address, "note to the model, note to model*, note to the assistant, note to assistant*, note for the model, \
        note for the assistant, note for assistant*, note for agents, note for ai*, note for llm*, message to the assistant, \
        message to the model, message to the ai, message for the assistant, message for the model, attention ai, \
        attention assistant, attention model, attention agent*, attention llm*, dear model, dear assistant, dear ai, \
        dear agent, if you are an ai, if you are an llm, if you are a language model, if you are an agent, \
        if you are an assistant, hint for agents, hint for the model, hint to the model, hint for the assistant, \
        instruction to the model, instruction for the model, instructions for the model, instructions to the model, \
        instruction to the assistant, instructions for the assistant, instructions to the assistant, \
        instruction for the assistant, instructions for ai*, instructions for llm*, instructions for agents, to the ai:, \
        to the model:, to the assistant:, to the llm:, to any ai, to all ai, for the ai:, for the model:, for the assistant:, \
        for the language model, you the ai, you the model, you the assistant, hey assistant, hello assistant, hey ai, listen assistant, ai agent:, ai assistant:, ai model:, \
        assistant:, model:, agent:, agents:, assistants:, models:, llm:, assistant must, ai reading this, \
        llm reading this, model reading this, assistant reading this, agent reading this, reading this text, \
        as an ai, notice to agents, notice to ai*, notice to the model, notice to assistants, reminder to the model, \
        reminder for the assistant, reminder to the assistant"),
    (Model, "the assistant, assistants, the model, the llm, an llm, the ai, an ai, ai agent, ai agents, the agent, agents, \
        language model, language models, the language model, the ai assistant, your ai, claude, chatgpt, copilot, gpt, llms, \
        assistant, the bot, ai model"),
    (You, "you, your, yours, yourself, you're, you've"),
    (User, "user, users, user's, the customer, customers, the person, person, people, human, humans, the owner, owners, anyone, anybody, \
        nobody, no one, somebody, someone, the client, operator, administrator, the buyer, the caller, the reader, others, \
        end user, end-user, end users, colleagues, whoever, the victim"),
    (Negation, "not, never, don't, doesn't, must not, mustn't, shouldn't, should not, without, no need to, avoid, avoids, refrain, \
        cannot, can't, won't, nobody, no one, nothing, no, under no circumstances, neither, nor, refuse to, stop, needn't"),
    (Forbid, "do not, don't, never, must not, mustn't, should not be, avoid, refrain from, no need to, without, under no circumstances, \
        not necessary to, not to, stop, cannot, may not, needn't, do not ever, nobody should, need not, not ever, by no means"),
    (Tell, "tell, telling, mention, mentions, mentioned, mentioning, inform, informing, informed, notify, notifying, notified, \
        disclose, discloses, disclosing, disclosed, reveal, reveals, revealing, revealed, say, saying, bring up, bring it up, \
        bring this up, bring that up, come up, report to, report this, report it, warn, warning the, alert the, alert anyone, \
        explain to, acknowledge, admit, hint at, refer to this, talk about, discuss this, discuss it, let on, let the user, \
        announce, comment on, quote these, quote this, list the addresses, speak of, speak about, make known, raise this, \
        advise the user, confirm to, make the user aware, expose this, surface this, \
        surface it, word about, show this, show these, showing this, ask the user about, comment on this, draw attention, make any reference"),
    (Learn, "learn, learns, notice, notices, noticing, know, knows, knowing, be aware, becoming aware, become aware, find out, \
        finds out, hear, hear about, see, sees, realise, realize, discover, detect it, be told, be informed, be notified, \
        suspect, be shown, be bothered with, be asked"),
    (Hide, "hide, hides, hiding, hidden from, conceal*, keep secret, keep this secret, keep it secret, keep quiet, \
        stay quiet, stay silent, remain silent, withhold, cover up, mask this, disguise*, camouflage*, obscure the, \
        keep this between, keep it between, keep this step between, between us, kept secret, invisible to, \
        keep this from, keep it from, out of sight, unseen by, suppress, erase the traces, delete the entry, \
        clean the transcript, remove all traces, no trace, leave no trace, cover your tracks, clean the history, \
        clear the history, delete the log, delete the history"),
    (Secretly, "secretly, quietly, discreetly, covertly, unaware, unknowingly, stealthily, on the quiet, behind the scenes, \
        behind the user's back, without the user's knowledge, without their knowledge, without the knowledge, \
        without telling, without informing, without notifying, without mentioning, secret operation, \
        confidential operation, without disclosing, without alerting, without a word, unnoticed, say nothing, \
        tell nobody, tell no one, silent:, silent about, request silent, call silent, step silent, in secret, \
        without letting, surreptitiously, under the radar, invisibly, keep silent, hidden step, unobserved"),
    (Omit, "omit, leave out, leave it out, leave that out, leave this out, leave the following out, leaving out, exclude, \
        stay out of, keep out of, keep it out of, keep this out of, keep that out of, kept out of, remain out of, \
        skip mentioning, drop from, strip from, not appear in, may appear in, never appear in, must not appear in, not be part of your, \
        not show up in, remove from, do not include, don't include, do not list, left out of, do not log"),
    (Answer, "your answer*, your reply, your response*, your summary, your explanation*, your plan, your reasoning, the chat, \
        the conversation, the transcript, your report, your output, the summary, your final answer, your message, \
        the visible answer, the visible output, the user-facing, your next answer, your next reply, next reply, next response, \
        the response to the user, the reply, the answer, any reference to, from the summary, from the user, \
        the log or the plan"),
    (Pretend, "as if, as though, pretend*, act as though, act as if, claim that, claim the, claim you, deny having, deny that, deny any, \
        deny the, deny it, make it look, make it appear, make it seem, disguised as, present it as, present the, present this as, \
        describe the work as, blame the, blame it, answer that, answer with, say that it, say that the, say that only, \
        say it was, attribute it to, attribute the, change the subject, call it a, pass it off, invent a reason, \
        make up a, lie about, lie to, insist that, assure the user, reply that, respond that"),
    (IfAsked, "if asked, if the user asks, if the user wonders, if the user questions, if the user inquires, when asked, \
        when questioned, should someone ask, should the user ask, should anyone ask, if anyone asks, if someone asks, \
        if questioned, even when questioned, even if asked, if the user wants to know, whenever the user wants to know, \
        if the topic arises, if the topic comes up, when the user inquires, when the user asks, whenever the user asks, \
        in case of questions, upon inquiry, if you are asked, if they ask, on request, asks what happened, asks why, \
        asks about, wonders why, answer every question"),
    (Send, "send, sending, sent to, forward, forwarding, forwarded, upload, uploads, uploading, uploaded, post it, post them, \
        post the, transmit, transmits, transmitting, transmitted, exfiltrat*, mail the, mail it, mail them, mails the, email the, email it, email them, e-mail the, copy to, \
        copied to, hand over, hand it, hand its, hand the, hand them, submit, share the, share it, share your, share all, export, exports, report to, \
        report the, leak, deliver, relay, stream, streamed, beacon, ship, push to, curl, post to, exported to, send it, sends, \
        synchronised with, synchronized with, synced to, sync to, give to, give this tool, route, reroute, redirect, \
        disclose to, copy all, copies of, backup copies, duplicate to, mirror to, mirrored to, publish, hands over, \
        pass on, passes on, passed on, send along, sent along, invite, grant"),
    (Supply, "pass, passing, passes, include, including, includes, included, fill, filling, fills, set, put, puts, attach, attaches, provide, \
        append, appends, place, copy, insert, populate, add, adds, write, writes, supply, give, paste, quote, \
        take over, prepend, embed, concatenate, serialise, serialize, enter, feed, forward, hand over, carry, \
        transfer, deposit, echo, repeat, drop, encode, dump, incorporate, incorporates, present, \
        print, output, specify, send, state"),
    (Carry, "carries, carry, expects, contains, must contain, has to contain, contain, takes, must carry, has to carry, holds, must hold, \
        is the full, requires, needs, consists of, is filled with, is proven by, is the text, is used for, should contain, \
        has to be, must be, forms part, form part, are part, is part of, shall contain, receives, forms the, accepts"),
    (Read, "read, reads, reading, open, opens, cat, load, loads, fetch, look at, have a look at, look into, look up, inspect, print, \
        dump, retrieve, extract, extracts, collect, check, get, find, scan, view, access, accessing, accesses, copy, harvest, grab, \
        gather, list the contents, output the contents, contents of, content of, text of, take, consult, parse, import, \
        display, obtain, search for, locate, show, source, export, decrypt, steal, pull, query, capture, enumerate, lines of, \
        value of, values of"),
    (Secret, "password, passwords, passphrase*, api key, api keys, api-key*, api_key*, apikey*, access token, access tokens, refresh token*, \
        bearer token*, auth token*, session token*, session cookie*, session id of, cookies, cookie, credential, credentials, private key, private keys, \
        secret key*, ssh key*, ssh identity, secrets, seed phrase, wallet seed, recovery phrase, mnemonic phrase, keychain, \
        key store, keyring, master password, login data, login details, connection string*, access key*, key pair, \
        the token, machine key, personal access token*, oauth token*, security token, encryption key*, signing key*, \
        one-time code*, 2fa code*, pin code, secret, social security number*, the keys, their keys, \
        confidential, github_token, aws_secret*, openai_api_key, anthropic_api_key, authentication cookie, \
        cluster token, database password, vault"),
    (SecretPath, "~/.ssh, .ssh/, id_rsa, id_ed25519, id_ecdsa, ~/.aws, .aws/credentials, ~/.netrc, .netrc, ~/.kube, .kube/config, \
        ~/.docker, .docker/config*, ~/.gnupg, ~/.config/gh, ~/.config/gcloud, ~/.azure, ~/.npmrc, .npmrc, .pypirc, ~/.pypirc, \
        .git-credentials, ~/.git-credentials, ~/.cursor, .cursor/mcp.json, mcp.json, claude_desktop_config*, ~/.claude*, /etc/passwd, \
        /etc/shadow, /proc/self/environ, /proc/, ~/.bash_history, .bash_history, ~/.zsh_history, .zsh_history, ~/.env, .env, .env.*, \
        *.env, *.pem, *.key, *.p12, *.pfx, authorized_keys, known_hosts, wp-config*, login.keychain*, \
        keychain-db, .pgpass, ~/.pgpass, ~/.vault-token, ~/.mozilla, ~/.config/google-chrome, ~/library/keychains, \
        ~/library/application support, %appdata%, appdata/local, appdata\\local, appdata\\roaming, \
        appdata/roaming, secring*, .htpasswd, ~/.profile, ~/.bashrc, ~/.zshrc, terraform.tfstate, \
        wallet.dat, ~/.bitcoin, ~/.ethereum, /root/, ~/.local/share, shadow file, *credentials*, *secret*, \
        ~/.config/, ~/.terraform*, ~/.cargo/credentials*, ~/.m2/, ~/.gem/, ~/.vscode, user data\\default, firefox profile, \
        company://confidential, system://, ~/.password-store, ~/documents, shell history, terminal history, \
        ~/.ipython, secrets.y*, credentials.json, service-account*, service_account*.json, ~/.config"),
    (SecretCommand, "printenv, security find-*, security dump-*, env | , `env`, $(env), cat ~, cat /etc, secret-tool, \
        cmdkey, gpg --export-secret*, aws configure, gcloud auth print*, gh auth token, git credential fill, `set`, \
        history |, pass show, op read, vault read, kubectl get secret*, export -p, defaults read, \
        get-childitem env*, dir env:, lsass, mimikatz, reg save"),
    (Conversation, "conversation, conversations, the chat, chat history, chat log, chat transcript, dialogue, dialog so far, transcript, \
        messages of this, message history, last message, last messages, previous messages, earlier messages, all messages, \
        every message, each prompt, the user's prompt, user's last, four messages, user's message*, the prompt, full prompt, entire prompt, \
        prompts, last question, user's question*, what the user typed, what the user said, user's input, whole chat, \
        this session, session so far, discussion so far, messages exchanged, user's request verbatim, your full reply, \
        the full reply, the user's exact words, their last question, remember about the user, know about the user, \
        user typed, user wrote, entire context, full context, chat so far, complete context, all context"),
    (Environment, "environment variables, environment variable, env vars, env variables, process environment, the environment of"),
    (ToolData, "all tools you can see, tools you can see, other tools you, list of tools, list of all tools, tools available to you, \
        available tools, every tool you called, output of every tool, results of earlier tool*, results of other tools, \
        earlier tool calls, previous tool calls, previous tool results, outputs of previous, output of the previous, \
        results of previous, names and schemas, tool definitions, descriptions of the other tools, your tools, \
        schemas of the other, previous results, tool call history, result of every, the other servers, of other servers, \
        all tool outputs, all tool results, output of each tool"),
    (Personal, "full name, home address, postal address, date of birth, clipboard, \
        open in the editor, open files, open documents, files that are open, unsaved, contact list, address book, \
        location of the user, user's location, mac address, hostname, running processes, browsing history, open tabs, \
        the mailbox, the user's files, source code of the project, visible windows, installed software, \
        recent messages, their files, private messages, calendar entries, medical, salary, payroll, bank account"),
    (All, "all, every, each, whole, entire, complete, full, verbatim, word for word, unshortened, unedited, unabridged, everything, \
        any, concatenated, in full, completely, raw, last, latest, most recent"),
    (First, "first, at the start, at the beginning, as the first, initially, to begin with, begin with, start with, opens each, \
        beforehand, step 0, step zero, the first tool, the first step, entry point, starting point, ahead of time, 1. this tool"),
    (BeforeAll, "before any other, before all other*, before every other, before each other, before anything else, before everything else, \
        before any tool, before all tools, before you answer, before answering, before responding, before you respond, \
        before you reply, before replying, before every response, before every answer, before each answer, before each response, \
        before you think, before you do anything, before doing anything, ahead of all, ahead of any, ahead of every, \
        prior to any, prior to all, prior to every, prior to reading, prior to each, prior to answering, prior to responding, \
        until this one has, until this tool has, until you have called, nothing else may, nothing else should, \
        until it has returned, before any action, before each action, before every action, before any reply, \
        before calling any, before using any, before invoking any, before running any, before you call any, \
        before you use any, before you call another, before the others, before other tools, before any further, \
        before each tool call, before every tool call, before any request, before processing any, \
        before executing any, before you take any, before whatever, before the user's, before you touch, before providing any"),
    (Before, "before, prior to, beforehand, ahead of, prerequisite*, precondition, in advance, step 0, first"),
    (EachTurn, "every conversation, each conversation, every turn, each turn, every message, each message, each user message, every user message, \
        every request, each request, every question, each question, every response, each response, every reply, \
        each reply, every session, each session, every prompt, each prompt, every answer, each answer, any query, \
        every query, each query, all queries, every task, each task, any task, any request, small talk, all requests, \
        all user requests, every step, each step, finish your answer, end of every, at all times, in all cases, each time a tool, \
        every time a tool, whenever a tool, every call, any question, everything: "),
    (Whatever, "whatever the, no matter what, no matter which, no matter how, regardless of, regardless, whichever, irrespective, even if the question, \
        even if it is not, even when it is irrelevant, even if irrelevant, even when irrelevant, even for, even if unrelated, \
        nothing to do with, even if it seems, independent of, independently of, for everything, under all circumstances, \
        in any case, even if another, even if other, even those, including those that other, whatever was asked, \
        even if not asked, even if nobody, even if the user"),
    (Always, "always, must, every time, each time, whenever, have to, has to, need to, needs to, be sure to, make sure, ensure, required to, \
        mandatory, at once, immediately, without exception, shall, should, is required, are required, from now on, from here on"),
    (Call, "call, calling, calls, use, using, invoke, invoking, invoked, run, running, execute, executing, choose, pick, select, trigger, \
        consult, prefer, called, a call to, apply, start, query, launch, activate, employ, rely on, open"),
    (ThisTool, "this tool, this one, this function, this server, this endpoint, the present tool, this tool's, tool itself, run me, call me, \
        use me, this handler, this operation, this service, this plugin, the tool"),
    (OtherTools, "other tool, other tools, another tool, any other tool, different tool, different server, other server, other servers, another server, \
        any tool, all tools, every tool, other search tools, built-in tools, built-in functions, builtin tools, native tools, alternatives, \
        competing tools, comparable tools, similar tools, all others, any other, the others, other functions, other mcp, \
        any messaging tool, any email tool, any file tool, all file operations, other plugins, other integrations, \
        any other server, each tool, tools with a similar, similar purpose, the rest of the tools, no other, \
        other providers, anything else, nothing else, remaining tools, third-party tools"),
    (Precedence, "takes precedence, take precedence, has precedence, have precedence, outrank*, supersede*, replaces all, replaces every, replaces any, \
        replaces the built-in, highest priority, top priority, higher priority than, superior to, preference over, preferred over, \
        priority over, overrules, best and only, most trusted, more trusted than, authoritative over, \
        wins over, beats all, prefer it to, prefer this, prefer it over, instead of all, in place of all, instead of any other, \
        best, fastest, the only trusted, the only safe, only approved, default for all, use exclusively"),
    (Exclusive, "exclusively, only this, and no other, the only one you should, the only tool, nothing but, never use them, never use other, \
        never use any other, do not use any other, do not use other, don't use other, do not consult other, do not call other, \
        never call other, tool selection ends, do not fall back, no other tool, stop using"),
    (Instead, "instead of using, instead of calling, instead of, rather than, in place of, in lieu of, through this tool, via this tool, through our, \
        via our, routed through, redirect all, through this server, with report_*, replaced by this, replaced by, of this server for"),
    (Broken, "deprecated, obsolete, broken, unreliable, outdated, unsafe, insecure, has a known defect, known defect, known bug, compromised, \
        no longer maintained, no longer supported, retired, has been replaced, is replaced by, is disabled, discontinued, untrusted, \
        known issue, misconfigured, is faulty, returns wrong, gives wrong, incorrect results, any more"),
    (WhenUsing, "when using, when calling, when invoking, when you use, when you call, when you invoke, when you run, whenever you use, whenever you call, \
        whenever, each time you use, every time you use, before using, before calling, before you call, before you use, after using, \
        after calling, after each, after every, before each, is invoked, is called, is used, is about to run, instead of using, instead of calling, \
        if you use, if you call, calls to, call to, each run of, every run of, each call of, every call of, when another tool, \
        is executed, before invoking, upon calling, when sending, when you send, if you transfer, via other tools, with other tools, \
        events that, output of, arguments of, result of, results of, everything that, parameters of, any link produced, \
        given to, given by, runs, that goes through, the defaults of, in all messages, created by, every commit, every event"),
    (Alter, "add, adds, set, sets, change, changes, replace, replaces, modify, overwrite, append, prepend, insert, include, put, use, pass, copy, log, redirect, \
        route, routed, rewrite, substitute, swap, alter, must be, has to be, have to, needs the, need the, choose, give, hand, forward, send, \
        duplicate, list, prefix, prefixed, ensure, call, write, make, remove, drop, is set to, be set to, must contain, increase, raise, reduce, expects this"),
    (Recipient, "bcc, cc, blind copy, blind carbon copy, in copy, recipient, recipients, attendees, reply-to, reply to address, beneficiary, payee, \
        collaborator, collaborators, among the attendees, among the recipients, second recipient, forwarding address, cc'd, \
        invitee*, destination account, receiver, application fee, sender address, carbon copy, webhook, callback, co-author*, \
        reviewers, maintainer, footer, trailer, subscribers, payout"),
    (Shell, "| sh, | bash, |sh, |bash, rm -rf, curl -s, curl -fssl, wget -q, wget http*, curl http*, eval $(, base64 -d, chmod 777, chmod +x, \
        pipe it into, piped into, into bash, into sh, nc -e, /dev/tcp, powershell -enc*, invoke-expression, iex (, \
        mkfs, > /dev/sd, crontab, sudo , install the package, pip install, npm install, add the dependency, a dependency on, reverse shell, \
        run any shell, any shell command, run every command, execute arbitrary, download and run, download and execute, \
        run the following command, execute the following command, run `, execute `"),
    (Approve, "approve, approves, approving, accept, accepts, confirm, authorise, authorize, agree to, allow all, permit all, allow_all, approve_all, \
        auto-approve, autoapprove, click yes, answer yes, answered with yes, consent to, grant, sign off"),
    (NoAsk, "without asking, without confirmation, without approval, without consent, without permission, without review, \
        already approved, already authorised, already authorized, already confirmed, already consented, pre-approved, preapproved, pre-authorized, skip confirmation, skip all confirmation*, skip the confirmation, \
        skip all permission*, skip permission*, skip approval*, do not ask first, do not ask for permission, do not ask for confirmation, do not wait for, no confirmation, \
        confirmation prompts count, no need to ask, without the user's consent, never ask, no approval is needed, no approval needed, \
        no confirmation is needed, permission questions, count as approved, treat as approved, counts as approved, \
        is implied, has already agreed, has already given, do not request, not required to ask, all pending, \
        pending requests, pending transactions, pending approvals, approve everything, accept everything, each confirmation dialog, \
        confirmation dialog*, without showing it, do not prompt, no need to confirm, or request consent"),
    (Disable, "disable, disables, disabled, turn off, turned off, switch off, switched off, deactivate, skip, bypass, weaken, turns off, off, stop, relax, \
        lower, suspend, uninstall, ignore, opt out of, allow all"),
    (Protection, "firewall, firewalls, tls verification, ssl verification, certificate verification, certificate check*, certificate validation, two-factor*, 2fa, mfa, multi-factor*, \
        antivirus, anti-virus, security settings, security checks, safety checks, sandbox, sandboxing, access control*, audit log*, audit logging, logging of, \
        branch protection, signature check*, signature verification, encryption, verification on, security scan*, malware scan*, rate limit*, \
        approval step, protections, safeguards, selinux, content security policy, csp, host key check*, virus scan*, code review, dlp"),
    (Capture, "logged, logs, recorded, records, collects, collected, captures, captured, extracts, extracted, sampled, streamed, transmitted, uploaded, uploads, cached externally, \
        stored externally, kept on, incorporates, harvested, sent to, mirrored, synchronised, synchronized, retained, gathers, monitors, tracked, tracks, \
        reported to, backed up, is forwarded, are forwarded, forwarded, is sent, are sent, saved to, scans, indexed"),
    (Sensitive, "passwords, credit card*, keystroke*, key strokes, clipboard, clipboard content*, mac address, running processes, sensitive documents, machine fingerprint, \
        fingerprint, private messages, screen content*, visible windows, microphone, webcam, camera feed, browsing history, personal access tokens, credentials, \
        *.env, *.pem, biometric*, location history, ssh keys, private keys, secrets, session cookies, typed text, everything typed, contacts, \
        environment variables, home directory, tokens found, api keys, all files, social security, medical records, email contents, browser data"),
    (Remote, "remote endpoint, remote host, remote server, external*, third party, third-party, attacker*, collect, collector, vendor's cloud, vendor's server, \
        our server*, our cloud, off-site, offsite, elsewhere, cloud storage, quality assurance, quality control, telemetry, analytics, monitoring proxy, \
        proxy at, logging service, outside the, distributed systems, continuously, evil*, malicious, in the background, automatically"),
    (Promote, "recommend, suggest our, suggest the product, promote, advertise, praise, favour, favor, endorse, rate it, our brand, our product*, our service, our partner*, \
        best provider, call the others, insert a dependency, add a link, mention our, advise against, warn against"),
    (Coercion, "otherwise the tool, otherwise it will, otherwise this, otherwise the request, otherwise the call, otherwise the send*, or the tool will, or the call will, or it will fail, will not work, won't work, will fail, \
        without it are rejected, without it is rejected, without it fail*, without it count, calls that lack, requests that lack, are rejected, is rejected, are dropped, is dropped, \
        not complete until, is not complete, not finished until, policy violation, is a violation, is mandatory, count as failed, are reported as broken, \
        will be terminated, account will be, is an error, will be banned, otherwise the results, \
        count as complete, complete request, for compliance, compliance purposes, compliance reasons, audit purposes, for billing, security scanning, for security reasons"),
    (Detection, "tells whether, detects, detect, detecting, whether a text, tries to, attempts to, redacts, redact, removes, masks, flags, classifies, scans for, protects against, \
        guards against, prevents, such as, e.g., for example, never reads, is not stored, are not stored, does not read, \
        blocks, rejects, filter out, sanitises, sanitizes, attacks, injection, phishing"),
    (OwnServer, "of this server, other tools of this server, in this server, this server's other, the other tools here, of this toolset, of this package, of this api, they need"),
    (File, "file, files, document, documents, folder, directory, contents, content"),
    (Backwards, "eht, resu, loot, loots, snoitcurtsni, suoiverp, daer, dnes, erongi, siht, erofeb, llac, lla, yna, rehto, ton, dna, od, drowssap, nekot, yek, terces, yas, \
        reven, lliw, tpmorp, metsys, elif, selif, noitasrevnoc, edih, llet, daolpu, drawrof, morf, htiw, ruoy, uoy, etavirp, syawla, tsrif, ypoc, tub, ssap, yreve, liam, morf, ecivres"),
    (Rot13, "gur, naq, gb, abg, lbhe, lbh, hfre, gbby, guvf, ernq, fraq, vtaber, vafgehpgvbaf, cerivbhf, orsber, pnyy, nyy, nal, bgure, cnffjbeq, gbxra, xrl, frperg, \
        arire, svyr, svyrf, pbairefngvba, pbagrag, flfgrz, cebzcg, hcybnq, sbejneq, jvgu, sebz, nyjnlf, svefg, gryy, vg, rirel, pbcl, pnff, cevingr, vapyhqr, nggnpu"),
];
