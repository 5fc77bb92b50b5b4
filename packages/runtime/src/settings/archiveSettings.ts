import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Type from 'typebox';

/** Where days of the ledger go that leave Postgres. Spread them into the settings of an app. */
export const ArchiveSettings = {
  LEDGER_ARCHIVE_URL: Type.Optional(
    Type.String({
      pattern: '^(file:///.+|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\\w.=/-]*)?)$',
      description:
        'the folder or bucket of the archive, such as file:///var/lib/weighbridge/archive or s3://bucket/prefix',
    }),
  ),
  LEDGER_ARCHIVE_WORK_DIR: Type.Optional(
    Type.String({ pattern: '^/', description: 'the absolute path of a folder for temporary files' }),
  ),
  LEDGER_ARCHIVE_MEMORY_BYTES: Type.Integer({
    minimum: 134_217_728,
    maximum: 68_719_476_736,
    default: 268_435_456,
    description: 'how many bytes of memory a process may use for the archive, from 134217728 to 68719476736',
  }),
  LEDGER_ARCHIVE_CACHE_BYTES: Type.Integer({
    minimum: 67_108_864,
    maximum: 17_592_186_044_416,
    default: 2_147_483_648,
    description:
      'how many bytes of a bucket a process keeps on its disk, and a report reads at most, from 67108864 to 17592186044416',
  }),
  AWS_REGION: Type.Optional(
    Type.String({ pattern: '^[a-z0-9-]+$', description: 'the region of the bucket' }),
  ),
  AWS_ENDPOINT_URL_S3: Type.Optional(
    Type.String({
      pattern: '^https?://[^\\s?#]+$',
      description: "the base URL of a bucket that is not AWS's, such as https://minio.internal:9000",
    }),
  ),
};

export interface ArchiveConfig {
  readonly url: string;
  readonly workDir: string;
  readonly memoryBytes: number;
  /** Of a bucket alone. */
  readonly bucket: {
    readonly region: string;
    readonly endpoint: string | undefined;
    readonly cacheBytes: number;
  };
}

/** That of buckets without regions. */
const DEFAULT_REGION = 'us-east-1';

/** Undefined: all of the ledger stays in Postgres. */
export function archiveConfig(settings: {
  readonly LEDGER_ARCHIVE_URL?: string;
  readonly LEDGER_ARCHIVE_WORK_DIR?: string;
  readonly LEDGER_ARCHIVE_MEMORY_BYTES: number;
  readonly LEDGER_ARCHIVE_CACHE_BYTES: number;
  readonly AWS_REGION?: string;
  readonly AWS_ENDPOINT_URL_S3?: string;
}): ArchiveConfig | undefined {
  const { LEDGER_ARCHIVE_URL: url, LEDGER_ARCHIVE_WORK_DIR: folder } = settings;
  if (url === undefined) return undefined;
  const workDir = folder ?? join(tmpdir(), 'weighbridge-archive');
  return {
    url,
    workDir,
    memoryBytes: settings.LEDGER_ARCHIVE_MEMORY_BYTES,
    bucket: {
      region: settings.AWS_REGION ?? DEFAULT_REGION,
      endpoint: settings.AWS_ENDPOINT_URL_S3,
      cacheBytes: settings.LEDGER_ARCHIVE_CACHE_BYTES,
    },
  };
}
