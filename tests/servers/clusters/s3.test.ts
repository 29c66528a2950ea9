// The suites of this directory that work with files, with an S3 bucket as the file store.
import { suitesOnS3 } from '../../file_stores.ts';

suitesOnS3([new URL('./export.test.ts', import.meta.url)]);
