// Files with an S3 bucket as the file store.
import { suitesOnS3 } from '../file_stores.ts';

const suites = ['./file_store', '../http/files'] as const;
suitesOnS3(suites.map((suite) => new URL(`${suite}.test.ts`, import.meta.url)));
