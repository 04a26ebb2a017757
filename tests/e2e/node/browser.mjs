// Chromium as a person uses it: `{"id", "person", "do", …}` in a line, `{"id", "result"}` or `{"id", "error"}` back.
//
// Each person has a fresh profile of their own. The browser is the only argument; everything ends with the input.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const SECONDS = 1000;
const PATIENCE = 15 * SECONDS;
const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update',
  '--disable-sync'
];

// Evaluated through the debugger, because the pages allow no script from elsewhere.
const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

const browser = await chromium.launch({ executablePath: process.argv[2], args: FLAGS });
const persons = new Map();

const actions = {
  // A window on a fresh profile.
  async meet({ person, javascript = true, phone = false, any_authority = false, width, height, zone }) {
    const usual = phone ? { width: 360, height: 740 } : { width: 1100, height: 900 };
    const viewport = { width: width ?? usual.width, height: height ?? usual.height };
    const device = { viewport, hasTouch: phone, isMobile: phone, ignoreHTTPSErrors: any_authority, timezoneId: zone };
    const context = await browser.newContext({ javaScriptEnabled: javascript, ...device });
    context.setDefaultTimeout(PATIENCE);
    await context.addInitScript(() => document.addEventListener('securitypolicyviolation', event => {
      console.error(`blocked by the policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    }));
    const page = await context.newPage();
    const said = [];
    page.on('console', message => { if (message.type() === 'error') said.push(message.text()); });
    page.on('pageerror', error => said.push(error.message));
    page.on('dialog', dialog => { said.push(`dialog: ${dialog.message()}`); return dialog.dismiss(); });
    persons.set(person, { context, page, said });
  },
  async leave({ person }) {
    await persons.get(person)?.context.close();
    persons.delete(person);
  },
  async open({ page, url }) {
    const answer = await page.goto(url);
    return answer?.status() ?? null;
  },
  // As with the key F5. A page that is the answer to a form sends the form again.
  async reload({ page }) {
    const answer = await page.reload();
    return answer?.status() ?? null;
  },
  async look({ page, said }) {
    const text = await page.locator('body').innerText();
    return { url: page.url(), title: await page.title(), text, complaints: said };
  },
  async html({ page }) {
    return page.content();
  },
  async fill({ page, field, value, region }) {
    await part(page, region).locator(`[name="${field}"]`).locator('visible=true').first().fill(value);
  },
  // Buttons of plain forms lead to another page, or to the same one anew. Others name what is seen afterwards.
  async press({ page, button, then, region }) {
    const named = part(page, region).getByRole('button', { name: new RegExp(button, 'i') });
    const one = named.locator('visible=true').first();
    if (then) {
      await one.click();
      await seen(page, then);
    } else {
      await Promise.all([page.waitForEvent('framenavigated', frame => frame === page.mainFrame()), one.click()]);
    }
    await page.waitForLoadState('load');
  },
  async unfold({ page, summary }) {
    await page.locator('summary', { hasText: new RegExp(summary, 'i') }).locator('visible=true').first().click();
  },
  async choose({ page, field, value, region }) {
    await part(page, region).locator(`select[name="${field}"]`).locator('visible=true').first().selectOption(value);
  },
  async tick({ page, field, on = true, region }) {
    await part(page, region).locator(`[name="${field}"]`).locator('visible=true').first().setChecked(on);
  },
  async follow({ page, link, region }) {
    const named = part(page, region).getByRole('link', { name: new RegExp(link, 'i') });
    await named.locator('visible=true').first().click();
    await page.waitForLoadState('load');
  },
  async key({ page, key }) {
    await page.keyboard.press(key);
  },
  // For pages that change by themselves: nothing is loaded again.
  async sees({ page, text, within = PATIENCE }) {
    await seen(page, text, within);
  },
  // Until a condition of the page holds. `waitForFunction` would evaluate the text in the page; the policy forbids that.
  async wait({ page, script, within = PATIENCE }) {
    const end = Date.now() + within;
    while (!(await page.evaluate(script))) {
      if (Date.now() > end) throw new Error(`not within ${within} ms: ${script}`);
      await new Promise(resolve => setTimeout(resolve, 30));
    }
  },
  async evaluate({ page, script }) {
    return page.evaluate(script);
  },
  async buttons({ page }) {
    return page.getByRole('button').locator('visible=true').evaluateAll(all => all.map(one => ({
      name: (one.innerText || one.value || '').trim(), width: one.offsetWidth, height: one.offsetHeight
    })));
  },
  // A link that saves a file: its name and its text.
  async download({ page, link }) {
    const named = page.getByRole('link', { name: new RegExp(link, 'i') }).locator('visible=true').first();
    const [saved] = await Promise.all([page.waitForEvent('download'), named.click()]);
    return { name: saved.suggestedFilename(), text: await readFile(await saved.path(), 'utf8') };
  },
  async screenshot({ page, path, whole = true }) {
    await page.screenshot({ path, fullPage: whole });
  },
  async theme({ page, scheme }) {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  },
  async resize({ page, width, height = 900 }) {
    await page.setViewportSize({ width, height });
  },
  // What keeps people with a screen reader, a keyboard or weak eyes from using the page.
  async axe({ page }) {
    await page.evaluate(AXE);
    const found = await page.evaluate(rules => globalThis.axe.run(document, {
      runOnly: { type: 'tag', values: rules }, resultTypes: ['violations']
    }), RULES);
    return found.violations.map(({ id, impact, help, nodes }) => ({
      id, impact, help, places: nodes.slice(0, 5).map(node => `${node.target.join(' ')} ${node.html.slice(0, 160)}`)
    }));
  },
  async cookies({ context }) {
    return context.cookies();
  },
  // A passkey in the device itself, whose owner always agrees.
  async authenticator({ person }) {
    const known = persons.get(person);
    const cdp = await known.context.newCDPSession(known.page);
    await cdp.send('WebAuthn.enable');
    const options = {
      protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
      isUserVerified: true, automaticPresenceSimulation: true
    };
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', { options });
    known.passkeys = async () => (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials;
  },
  async passkeys({ person }) {
    const all = await persons.get(person).passkeys();
    return all.map(one => ({ id: one.credentialId, rp: one.rpId, count: one.signCount }));
  }
};

// A part of the page by its heading, or all of it.
const part = (page, region) => (region ? page.getByRole('region', { name: new RegExp(region, 'i') }) : page);

const seen = (page, text, timeout = PATIENCE) =>
  page.locator('body', { hasText: new RegExp(text, 'i') }).waitFor({ timeout });

async function act(line) {
  const { id, ...asked } = JSON.parse(line);
  try {
    const known = persons.get(asked.person);
    if (!known && asked.do !== 'meet') throw new Error(`nobody is called ${asked.person}`);
    const result = await actions[asked.do]({ ...asked, page: known?.page, context: known?.context, said: known?.said });
    return { id, result: result ?? null };
  } catch (error) {
    return { id, error: error.message };
  }
}

console.log(JSON.stringify({ id: 0, result: browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  // Persons act side by side; one person does one thing after the other, because Python waits for each answer.
  act(line).then(answer => console.log(JSON.stringify(answer)));
}
await browser.close();
