/** The service that a client is to use: its address, without a path, and the secret of a key. */
export interface Service {
  readonly url: string;
  readonly key: string;
}

/** What a user pastes. Programs of the tests run with exactly this. */
interface Settings {
  readonly env: Readonly<Record<string, string>>;
  /** Files, by their path below the home folder. */
  readonly files?: Readonly<Record<string, string>>;
  /** The lines of a program that create its client. */
  readonly code?: string;
}

/** How one client is connected, and what it sends then. */
export interface Recipe {
  /** As in `weighbridge connect <name>`. */
  readonly name: string;
  readonly title: string;
  readonly install: string;
  readonly settings: (service: Service) => Settings;
  /** What to run or to look at next. */
  readonly next: string;
  /** The model that it asks for by default, or that its examples name: the vendor's name of it, without a provider. */
  readonly model: string;
  /** The operations that the tests saw it use, in alphabetical order. */
  readonly routes: readonly string[];
  /** The header in which it names its session, if it has one. */
  readonly session?: string;
  /** What a user should know, in a sentence or two. */
  readonly note?: string;
}

/** The settings as text: shell commands, files, code. Each part is headed by a comment. */
export function textOf(recipe: Recipe, service: Service): string {
  const { env, files = {}, code } = recipe.settings(service);
  const comment = recipe.install.startsWith('pip') || code === undefined ? '#' : '//';
  const lines = [`# ${recipe.title}. In a shell:`];
  for (const [name, value] of Object.entries(env)) lines.push(`export ${name}=${value}`);
  for (const [path, text] of Object.entries(files)) lines.push('', `# In ~/${path}:`, text.trimEnd());
  if (code !== undefined) lines.push('', `${comment} In the program:`, code.trimEnd());
  return lines.join('\n');
}
