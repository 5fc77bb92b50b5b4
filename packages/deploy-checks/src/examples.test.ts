import { describe, expect, it } from 'vitest';
import type { Manifest } from './manifests.ts';
import { parseYaml, read } from './repository.ts';
import { schemaErrors } from './schemas.ts';

interface ComposeService {
  readonly image: string;
  readonly build: { readonly context: string; readonly dockerfile: string; readonly target: string };
  readonly ports: readonly string[];
  readonly volumes: readonly string[];
}

describe('the example for Docker Compose', () => {
  it('builds a stage of the Dockerfile, keeps its data, and is reachable only from this machine', async () => {
    const [file] = parseYaml(await read('docs/examples/compose/compose.yaml'));
    const { services, volumes } = file as {
      services: Record<string, ComposeService>;
      volumes: Record<string, unknown>;
    };
    const [service, ...others] = Object.values(services);
    expect(others).toEqual([]);
    const dockerfile = await read('deploy/Dockerfile');
    const { context, dockerfile: path, target } = service?.build ?? {};
    expect([context, path]).toEqual(['../../..', 'deploy/Dockerfile']);
    expect(dockerfile).toMatch(new RegExp(`^FROM \\S+ AS ${target}$`, 'm'));
    // The folder is that of the image, or the data would end with the container.
    const dataDir = /WEIGHBRIDGE_DATA_DIR=(\S+)/.exec(dockerfile)?.[1];
    expect(service?.volumes).toEqual([`data:${dataDir}`]);
    expect(Object.keys(volumes)).toEqual(['data']);
    for (const port of service?.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
  });
});

describe('the example for kind', () => {
  it('creates what the values for a try name, as the schemas of Kubernetes say', async () => {
    const all = parseYaml(await read('docs/examples/kind/services.yaml')) as Manifest[];
    expect(all.flatMap(schemaErrors)).toEqual([]);
    const [values] = parseYaml(await read('deploy/helm/weighbridge/examples/tryout.values.yaml'));
    const nats = new URL((values as { nats: { url: string } }).nats.url);
    const services = all.filter(({ kind }) => kind === 'Service');
    const ports = new Map(
      services.map(({ metadata, spec }) => [
        metadata.name,
        (spec as { ports: { port: number }[] }).ports.map(({ port }) => port),
      ]),
    );
    expect(ports.get(nats.hostname)).toEqual([Number(nats.port)]);
    expect(ports.get('postgres')).toEqual([5432]);
    for (const { metadata } of all) expect(metadata.namespace).toBe('weighbridge');
  });

  it('has the versions of Postgres and NATS that the compose file has', async () => {
    const compose = await read('deploy/compose.yaml');
    const services = await read('docs/examples/kind/services.yaml');
    const images = [...services.matchAll(/image: (\S+)/g)].map(([, image = '']) => image);
    expect(images).toHaveLength(2);
    for (const image of images) expect(compose).toContain(`image: ${image}\n`);
  });
});
