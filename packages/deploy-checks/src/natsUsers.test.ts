import { NATS_USERS, natsConfiguration, permissionsOf } from '@weighbridge/bus';
import { expect, it } from 'vitest';
import { parseYaml, read } from './repository.ts';

/** The permissions of users of NATS have one source, packages/bus/src/permissions/permissions.ts. */

const HEAD = `# The users of NATS, each with the least subjects that it needs; see docs/deploy.md. Generated from
# packages/bus/src/permissions/permissions.ts: to update it, run vitest --update for packages/deploy-checks/src/natsUsers.test.ts.
# Passwords come from the environment of the server, and begin with a letter: NATS reads others as numbers.
`;

/** What proxies need besides, if they share cached responses. */
function forSharedCache(): readonly string[] {
  const { publish } = permissionsOf('data-plane');
  return permissionsOf('data-plane', { sharesCache: true }).publish.filter(
    (subject) => !publish.includes(subject),
  );
}

const NOTE = `# With RESPONSE_CACHE_SHARED=true, data-plane may also publish to:
${forSharedCache()
  .map((subject) => `#   ${JSON.stringify(subject)}\n`)
  .join('')}`;

it('deploy/nats/users.conf has them, for compose and for servers of your own', async () => {
  const expected = HEAD + NOTE + natsConfiguration(NATS_USERS);
  await expect(expected).toMatchFileSnapshot('../../../deploy/nats/users.conf');
});

it("the example of the official chart's values has them, and takes each password from the secret", async () => {
  const path = 'deploy/helm/weighbridge/examples/nats.values.yaml';
  const [values] = parseYaml(await read(path)) as [NatsValues];
  expect(values.config.merge.authorization.users).toEqual(
    NATS_USERS.map(({ user, passwordVariable, permissions: { publish, subscribe } }) => ({
      user,
      password: `<< $${passwordVariable} >>`,
      permissions: { publish: { allow: publish }, subscribe: { allow: subscribe } },
    })),
  );
  const from = Object.entries(values.container.env).map(([name, { valueFrom }]) => [
    name,
    valueFrom.secretKeyRef,
  ]);
  expect(from).toEqual(
    NATS_USERS.map(({ user, passwordVariable }) => [
      passwordVariable,
      { name: 'weighbridge-nats', key: `${user}-password` },
    ]),
  );
  const text = await read(path);
  for (const subject of forSharedCache()) expect(text).toContain(`#   - ${subject}\n`);
});

it('docs/deploy.md lists them', async () => {
  const text = await read('docs/deploy.md');
  for (const { user, permissions } of NATS_USERS.filter((one) => one.user !== 'operator')) {
    const [row = ''] = new RegExp(`^\\| \`${user}\`.*$`, 'm').exec(text) ?? [];
    for (const subject of [...permissions.publish, ...permissions.subscribe])
      expect(row, subject).toContain(`\`${subject}\``);
  }
});

it('the compose file gives each app its own, and NATS all', async () => {
  const [file] = parseYaml(await read('deploy/compose.yaml')) as [Compose];
  const { nats, ...others } = file.services;
  expect(Object.keys(nats?.environment ?? {})).toEqual(NATS_USERS.map((one) => one.passwordVariable));
  expect(nats?.volumes).toContain('./nats/users.conf:/etc/nats/users.conf:ro');
  const users = Object.entries(others).flatMap(([name, { environment: { NATS_URL } = {} }]) =>
    NATS_URL ? [[name, NATS_URL]] : [],
  );
  // biome-ignore-start lint/suspicious/noTemplateCurlyInString: compose's own.
  expect(Object.fromEntries(users)).toEqual({
    'data-plane': 'nats://data-plane:${NATS_DATA_PLANE_PASSWORD:?}@nats:4222',
    metering: 'nats://metering:${NATS_METERING_PASSWORD:?}@nats:4222',
  });
  // biome-ignore-end lint/suspicious/noTemplateCurlyInString: compose's own.
});

interface NatsValues {
  readonly config: { readonly merge: { readonly authorization: { readonly users: readonly unknown[] } } };
  readonly container: {
    readonly env: Readonly<Record<string, { readonly valueFrom: { readonly secretKeyRef: unknown } }>>;
  };
}

interface Compose {
  readonly services: Readonly<
    Record<
      string,
      { readonly environment?: Readonly<Record<string, string>>; readonly volumes?: readonly string[] }
    >
  >;
}
