<?php
// Writes to standard error.
require __DIR__ . '/../lib/app.php';

error_log('complaint of ' . TENANT . ' for ' . NONCE);
echo "logged\n";
