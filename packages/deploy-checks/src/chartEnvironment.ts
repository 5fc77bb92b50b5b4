import { type Manifest, workload } from './manifests.ts';

/** The operator's key of these apps. */
export const OPERATOR_KEY = `sk-svc-${'a'.repeat(32)}`;

/** Values of the secrets that the chart refers to, by the name of the variable. */
const SECRETS: Readonly<Record<string, string>> = {
  CONTROL_PLANE_TOKEN: 'a token that the apps share',
  WEIGHBRIDGE_BOOTSTRAP_KEY: OPERATOR_KEY,
  WEIGHBRIDGE_KEY_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
  WEIGHBRIDGE_PEPPER: 'p'.repeat(32),
  STATE_KEY: Buffer.alloc(32, 2).toString('base64'),
};

/**
 * The environment of a rendered container, with the values that a cluster provides, bound to the loopback interface. `own` has
 * what is known only here, and `dataDir` replaces the mounted volume. Throws if a variable is left without a value.
 */
export function chartEnvironment(
  rendered: readonly Manifest[],
  of: string,
  own: Readonly<Record<string, unknown>>,
  dataDir?: string,
): Record<string, string> {
  const { env = [] } = workload(rendered, of).pod.containers[0] ?? {};
  // Without a load balancer, the apps need not announce their shutdown.
  const noDelay = { SHUTDOWN_DELAY_MS: 0 };
  return Object.fromEntries(
    env.map(({ name, value }) => {
      const filled = { ...noDelay, ...own }[name] ?? SECRETS[name] ?? value;
      if (filled === undefined) throw new Error(`the variable ${name} of ${of} has no value`);
      const text = String(filled).replace(/^0\.0\.0\.0$/, '127.0.0.1');
      return [name, dataDir === undefined ? text : text.replace(/^\/var\/lib\/weighbridge/, dataDir)];
    }),
  );
}
