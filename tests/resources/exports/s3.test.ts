// Exports to download with an S3 bucket as the file store.
import { suitesOnS3 } from '../../file_stores.ts';

suitesOnS3([new URL('./export_download.test.ts', import.meta.url)]);
