import { execFile } from 'node:child_process';
import { access, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Browser, chromium } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const UNPACK_TIMEOUT_MS = 120_000;

interface FoundBrowser {
  readonly path: string;
  /** What it needs beside the environment of the tests. */
  readonly env: Readonly<Record<string, string>>;
}

/** A real browser: that of `CHROMIUM_BIN`, else one of the PATH, else the one that npm ships. */
export async function launchChromium(): Promise<Browser> {
  const { path, env } = (await installed()) ?? (await packaged());
  return await chromium.launch({
    executablePath: path,
    // Its own sandbox needs rights that root and containers lack; it shows only our own pages here.
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    // biome-ignore lint/style/noProcessEnv: the browser is a program of this machine.
    env: { ...process.env, ...env } as Record<string, string>,
  });
}

async function installed(): Promise<FoundBrowser | undefined> {
  // biome-ignore lint/style/noProcessEnv: a setting of a test run.
  const { CHROMIUM_BIN, PATH = '' } = process.env;
  if (CHROMIUM_BIN) return { path: CHROMIUM_BIN, env: {} };
  for (const folder of PATH.split(delimiter)) {
    for (const name of NAMES) {
      if (await exists(join(folder, name))) return { path: join(folder, name), env: {} };
    }
  }
  return undefined;
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

/** Unpacks the browser of npm once for a user of this machine, with the libraries that it needs. */
async function packaged(): Promise<FoundBrowser> {
  const entry = createRequire(import.meta.url).resolve('@sparticuz/chromium');
  const { version } = JSON.parse(await readFile(join(dirname(entry), '../package.json'), 'utf8'));
  const folder = join(tmpdir(), `weighbridge-chromium-${version}-${process.getuid?.() ?? 0}`);
  if (!(await exists(folder))) {
    const unpacked = await mkdtemp(join(tmpdir(), 'weighbridge-chromium-'));
    const script = "import('@sparticuz/chromium').then(({ default: one }) => one.executablePath())";
    await promisify(execFile)(process.execPath, ['--eval', script], {
      cwd: import.meta.dirname,
      // The latter makes it unpack its libraries too.
      // biome-ignore lint/style/noProcessEnv: the program needs the environment of the tests.
      env: { ...process.env, TMPDIR: unpacked, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x' },
      timeout: UNPACK_TIMEOUT_MS,
    });
    // Another run may have been faster.
    await rename(unpacked, folder).catch(() => rm(unpacked, { recursive: true, force: true }));
  }
  const home = join(folder, 'home');
  await mkdir(home, { recursive: true });
  const fontSettings = join(folder, 'fonts.conf');
  await writeFile(fontSettings, fontsIn(folder));
  return {
    path: join(folder, 'chromium'),
    env: {
      LD_LIBRARY_PATH: join(folder, 'al2023', 'lib'),
      FONTCONFIG_FILE: fontSettings,
      HOME: home,
    },
  };
}

/** The package's own settings name other folders; without any font the browser ends at the first input. */
function fontsIn(folder: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>${join(folder, 'fonts')}</dir><cachedir>${join(folder, 'fonts-cache')}</cachedir></fontconfig>
`;
}
